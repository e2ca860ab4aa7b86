// The fast path cuts each double of a block at fixed bits below the block's largest exponent, so that sums of the upper
// parts are exact in double; three such levels hold 120 bits. Only blocks of wider range are added term by term.
#include "base/exact_sum.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/parallel.h"

namespace isotone {
namespace {

constexpr std::int64_t kBlock = 2048;  // 2^11 terms: the headroom of 12 bits below counts on it

typedef float Floats __attribute__((vector_size(32)));
typedef std::int32_t Ints __attribute__((vector_size(32)));
typedef double Doubles __attribute__((vector_size(64)));

struct Levels {
  double sum[3];
  bool exact;
};

inline double power_of_two(int e) {
  return std::bit_cast<double>(static_cast<std::int64_t>(1023 + e) << 52);
}

/// Splits a block (n a multiple of 8, at most kBlock) of finite terms with largest magnitude bits `top`.
template <bool kSquare, int kLevels>
__attribute__((always_inline)) inline Levels split_block(const float* terms, std::int64_t n, std::int32_t top) {
  const int above = (top >> 23) - 126;  // |term| < 2^above
  const int t = kSquare ? 2 * above : above;
  const double s0 = 1.5 * power_of_two(t + 12);
  const double s1 = 1.5 * power_of_two(t - 28);
  const double s2 = 1.5 * power_of_two(t - 68);
  Doubles sum0{};
  Doubles sum1{};
  Doubles sum2{};
  typedef std::int64_t Longs __attribute__((vector_size(64)));
  Longs left{};
  for (std::int64_t i = 0; i < n; i += 8) {
    Floats x;
    std::memcpy(&x, terms + i, sizeof x);
    Ints b = reinterpret_cast<Ints>(x);
    b &= (b & 0x7fffffff) > 0x007fffff;  // subnormals are zeros
    x = reinterpret_cast<Floats>(b);
    Doubles d = __builtin_convertvector(x, Doubles);
    if (kSquare) {
      d *= d;
    }
    const Doubles h0 = (d + s0) - s0;
    sum0 += h0;
    d -= h0;
    if (kLevels > 1) {
      const Doubles h1 = (d + s1) - s1;
      sum1 += h1;
      d -= h1;
    }
    if (kLevels > 2) {
      const Doubles h2 = (d + s2) - s2;
      sum2 += h2;
      d -= h2;
    }
    left |= reinterpret_cast<Longs>(d);  // an exact remainder of zero is +0
  }
  Levels out{};
  std::int64_t rest = 0;
  for (int i = 0; i < 8; ++i) {
    out.sum[0] += sum0[i];
    out.sum[1] += sum1[i];
    out.sum[2] += sum2[i];
    rest |= left[i];
  }
  out.exact = rest == 0;
  return out;
}

/// Fewer levels suffice for most blocks.
template <bool kSquare>
__attribute__((always_inline)) inline Levels split_levels(const float* terms, std::int64_t n, std::int32_t top) {
  Levels out = split_block < kSquare, kSquare ? 2 : 1 > (terms, n, top);
  if (!out.exact) {
    out = split_block<kSquare, 3>(terms, n, top);
  }
  return out;
}

__attribute__((always_inline)) inline std::int32_t largest_bits(const float* terms, std::int64_t n) {
  Ints top{};
  for (std::int64_t i = 0; i < n; i += 8) {
    Ints b;
    std::memcpy(&b, terms + i, sizeof b);
    b &= 0x7fffffff;
    top = b > top ? b : top;
  }
  std::int32_t out = 0;
  for (int i = 0; i < 8; ++i) {
    out = top[i] > out ? top[i] : out;
  }
  return out;
}

using Split = Levels (*)(const float*, std::int64_t, std::int32_t);

Levels split_plain(const float* x, std::int64_t n, std::int32_t top) {
  return split_levels<false>(x, n, top);
}
Levels split_square(const float* x, std::int64_t n, std::int32_t top) {
  return split_levels<true>(x, n, top);
}
#if defined(__x86_64__)
#define ISOTONE_WIDE __attribute__((target("avx512f,avx512dq,avx512vl")))
ISOTONE_WIDE Levels split_plain_wide(const float* x, std::int64_t n, std::int32_t top) {
  return split_levels<false>(x, n, top);
}
ISOTONE_WIDE Levels split_square_wide(const float* x, std::int64_t n, std::int32_t top) {
  return split_levels<true>(x, n, top);
}
#endif

Split choose_split(bool square) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    return square ? split_square_wide : split_plain_wide;
  }
#endif
  return square ? split_square : split_plain;
}

}  // namespace

void ExactSum::add_exact(double value) {
  const std::uint64_t b = std::bit_cast<std::uint64_t>(value);
  const int e = static_cast<int>((b >> 52) & 2047U);
  if (e == 0) {
    return;
  }
  const std::uint64_t m = (b & 0x000fffffffffffffULL) | 0x0010000000000000ULL;
  const int at = e - 1075 - kLowest;
  const int limb = at / 32;
  const unsigned __int128 wide = static_cast<unsigned __int128>(m) << (at % 32);
  const std::int64_t sign = (b >> 63) != 0 ? -1 : 1;
  for (int i = 0; i < 3; ++i) {
    limbs_[static_cast<std::size_t>(limb + i)] +=
        sign * static_cast<std::int64_t>(static_cast<std::uint32_t>(wide >> (32 * i)));
  }
  if (++pending_ > (std::int64_t{1} << 30)) {
    carry();
  }
}

void ExactSum::carry() {
  for (int i = 0; i + 1 < kLimbs; ++i) {
    auto& here = limbs_[static_cast<std::size_t>(i)];
    const std::int64_t up = here >> 32;  // rounds down: what stays is in [0, 2^32)
    here -= up * (std::int64_t{1} << 32);
    limbs_[static_cast<std::size_t>(i) + 1] += up;
  }
  pending_ = 1;
}

void ExactSum::add_slowly(const float* terms, std::int64_t n, bool square) {
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t b = std::bit_cast<std::uint32_t>(terms[i]);
    const std::uint32_t a = b & 0x7fffffffU;
    if (a < 0x00800000U) {
      continue;
    }
    if (a > 0x7f800000U) {
      nan_ = true;
    } else if (a == 0x7f800000U) {
      (a == b || square ? plus_infinity_ : minus_infinity_) = true;
    } else {
      const double d = static_cast<double>(terms[i]);
      add_exact(square ? d * d : d);
    }
  }
}

void ExactSum::add_serial(const float* terms, std::int64_t n, bool square) {
  const Split split = choose_split(square);
  while (n >= 8) {
    const std::int64_t length = (n < kBlock ? n : kBlock) / 8 * 8;
    const std::int32_t top = largest_bits(terms, length);
    if (top >= 0x7f800000) {
      add_slowly(terms, length, square);
    } else if (top >= 0x00800000) {
      const Levels levels = split(terms, length, top);
      if (levels.exact) {
        for (const double sum : levels.sum) {
          add_exact(sum);
        }
      } else {
        add_slowly(terms, length, square);
      }
    }
    terms += length;
    n -= length;
  }
  add_slowly(terms, n, square);
}

void ExactSum::add_span(std::span<const float> terms, bool square) {
  const std::int64_t n = static_cast<std::int64_t>(terms.size());
  constexpr std::int64_t kGrain = 64 * kBlock;
  if (n <= kGrain) {
    add_serial(terms.data(), n, square);
    return;
  }
  std::vector<ExactSum> parts(static_cast<std::size_t>(thread_count()));
  parallel_for((n + kBlock - 1) / kBlock, kGrain / kBlock, [&](std::int64_t begin, std::int64_t end, int worker) {
    const std::int64_t last = end * kBlock < n ? end * kBlock : n;
    parts[static_cast<std::size_t>(worker)].add_serial(terms.data() + begin * kBlock, last - begin * kBlock, square);
  });
  for (const ExactSum& part : parts) {
    merge(part);
  }
}

void ExactSum::add(float term) {
  add_slowly(&term, 1, false);
}
void ExactSum::add_square(float term) {
  add_slowly(&term, 1, true);
}
void ExactSum::add(std::span<const float> terms) {
  add_span(terms, false);
}
void ExactSum::add_squares(std::span<const float> terms) {
  add_span(terms, true);
}

void ExactSum::merge(const ExactSum& other) {
  ExactSum right = other;
  right.carry();
  carry();
  for (std::size_t i = 0; i < limbs_.size(); ++i) {
    limbs_[i] += right.limbs_[i];
  }
  carry();
  nan_ |= other.nan_;
  plus_infinity_ |= other.plus_infinity_;
  minus_infinity_ |= other.minus_infinity_;
}

double ExactSum::rounded(int bits) const {
  if (nan_ || (plus_infinity_ && minus_infinity_)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (plus_infinity_ || minus_infinity_) {
    return plus_infinity_ ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
  }
  ExactSum total = *this;
  total.carry();
  const bool negative = total.limbs_[kLimbs - 1] < 0;
  if (negative) {
    for (auto& limb : total.limbs_) {
      limb = -limb;
    }
    total.carry();
  }
  int top = kLimbs - 1;
  while (top >= 0 && total.limbs_[static_cast<std::size_t>(top)] == 0) {
    --top;
  }
  if (top < 0) {
    return 0.0;
  }
  // The top 96 bits and whether anything is below them; then keep `bits`.
  unsigned __int128 window = 0;
  for (int i = 0; i < 3; ++i) {
    window = (window << 32) |
             (top - i >= 0 ? static_cast<std::uint64_t>(total.limbs_[static_cast<std::size_t>(top - i)]) : 0U);
  }
  bool sticky = false;
  for (int i = top - 3; i >= 0; --i) {
    sticky = sticky || total.limbs_[static_cast<std::size_t>(i)] != 0;
  }
  const int width = 128 - std::countl_zero(static_cast<std::uint64_t>(window >> 64)) -
                    ((window >> 64) == 0 ? std::countl_zero(static_cast<std::uint64_t>(window)) : 0);
  const int drop = width - bits;  // at least 65 - 53: positive
  std::uint64_t kept = static_cast<std::uint64_t>(window >> drop);
  const unsigned __int128 rest = window & ((static_cast<unsigned __int128>(1) << drop) - 1);
  const unsigned __int128 half = static_cast<unsigned __int128>(1) << (drop - 1);
  if (rest > half || (rest == half && (sticky || (kept & 1U) != 0))) {
    ++kept;
  }
  const double magnitude = std::ldexp(static_cast<double>(kept), 32 * (top - 2) + kLowest + drop);
  return negative ? -magnitude : magnitude;
}

double ExactSum::round() const {
  return rounded(53);
}

float ExactSum::round_to_float() const {
  const double value = rounded(24);
  if (std::fabs(value) < 0x1p-126) {
    return std::signbit(value) ? -0.0F : 0.0F;
  }
  // 24 bits already, so this conversion only looks at the range.
  return std::fabs(value) > 0x1.fffffep127
             ? std::copysign(std::numeric_limits<float>::infinity(), static_cast<float>(value < 0 ? -1 : 1))
         : value != value ? std::bit_cast<float>(0x7fc00000U)
                          : static_cast<float>(value);
}

}  // namespace isotone
