// bf16 and f16 as storage types: bits, and exact conversions with round-to-nearest-even.
// Arithmetic is never done in them; values are widened to f32 first (docs/numerics.md, section 1).
#pragma once

#include <bit>
#include <cstdint>

namespace isotone {

/// Brain float: the upper half of an f32. Rounding flushes nothing; every NaN becomes 0x7fc0.
struct bf16 {
  std::uint16_t bits = 0;
  bf16() = default;
  explicit bf16(float value) {
    std::uint32_t u = std::bit_cast<std::uint32_t>(value);
    bits = (u & 0x7fffffffU) > 0x7f800000U ? std::uint16_t{0x7fc0}
                                           : static_cast<std::uint16_t>((u + 0x7fffU + ((u >> 16) & 1U)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
  static bf16 from_bits(std::uint16_t b) {
    bf16 r;
    r.bits = b;
    return r;
  }
};

/// IEEE binary16, subnormals kept (numerics, section 4). Integer code only, so the thread's flush mode does not matter.
struct f16 {
  std::uint16_t bits = 0;
  f16() = default;
  explicit f16(float value);
  explicit operator float() const;
  static f16 from_bits(std::uint16_t b) {
    f16 r;
    r.bits = b;
    return r;
  }
};

inline f16::f16(float value) {
  const std::uint32_t u = std::bit_cast<std::uint32_t>(value);
  const std::uint16_t sign = static_cast<std::uint16_t>((u >> 16) & 0x8000U);
  const std::uint32_t a = u & 0x7fffffffU;
  if (a > 0x7f800000U) {
    bits = 0x7e00;
  } else if (a >= 0x477ff000U) {  // 65520 and above round to infinity
    bits = static_cast<std::uint16_t>(sign | 0x7c00U);
  } else if (a >= 0x38800000U) {  // normal
    const std::uint32_t r = a - 0x38000000U;
    bits = static_cast<std::uint16_t>(sign | ((r + 0xfffU + ((r >> 13) & 1U)) >> 13));
  } else if (a < 0x33000000U) {
    bits = sign;
  } else {  // subnormal: shift the mantissa with its hidden bit to units of 2^-24, ties to even
    const std::uint32_t shift = 126U - (a >> 23);
    const std::uint32_t m = (a & 0x7fffffU) | 0x800000U;
    const std::uint32_t q = m >> shift;
    const std::uint32_t rest = m & ((1U << shift) - 1U);
    const std::uint32_t half = 1U << (shift - 1U);
    bits = static_cast<std::uint16_t>(sign | (q + ((rest > half || (rest == half && (q & 1U) != 0)) ? 1U : 0U)));
  }
}

inline f16::operator float() const {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t e = (bits >> 10) & 31U;
  std::uint32_t m = bits & 0x3ffU;
  if (e == 31) {
    return std::bit_cast<float>(m != 0 ? 0x7fc00000U : (sign | 0x7f800000U));
  }
  if (e != 0) {
    return std::bit_cast<float>(sign | ((e + 112U) << 23) | (m << 13));
  }
  if (m == 0) {
    return std::bit_cast<float>(sign);
  }
  const std::uint32_t shift = static_cast<std::uint32_t>(std::countl_zero(m)) - 21U;
  m = (m << shift) & 0x3ffU;
  return std::bit_cast<float>(sign | ((113U - shift) << 23) | (m << 13));
}

}  // namespace isotone
