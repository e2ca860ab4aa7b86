// Packs blocks of 64 rows (keys, values, queries, gradients) into the operands of attention_multiply.h.
#pragma once

#include <cstring>

#include "backends/cpu/kernels/attention_multiply.h"
#include "backends/cpu/kernels/attention_tiles.h"

namespace isotone::cpu::attention {
namespace {

// ---- packing ----
// Each has a form for widths of whole vectors (kWide), whose loads need no masks.
template <class K, bool kWide>
ISOTONE_INLINE Vec load_row(const void* row, std::int64_t w, std::int64_t d) {
  return K::load_words(row, w, kWide ? w * K::kPerWord + kL * K::kPerWord : d);
}

template <class K, bool kWide>
ISOTONE_INLINE void pack_left_as(const void* const* rows, int count, std::int64_t d, float* out) {
  const std::int64_t words = K::words(d);
  for (int r = 0; r < count; ++r) {
    for (std::int64_t w = 0; w < words; w += kL) {
      const Vec x = load_row<K, kWide>(rows[r], w, d);
      kWide ? x.store(out + r * words + w) : x.store_some(out + r * words + w, words - w);
    }
  }
}
template <class K>
void pack_left(const void* const* rows, int count, std::int64_t d, float* out) {
  d % 32 == 0 ? pack_left_as<K, true>(rows, count, d, out) : pack_left_as<K, false>(rows, count, d, out);
}

/// Sixteen rows by sixteen words of a transposed operand; rows from `count` on are absent.
template <class K, bool kWide>
ISOTONE_INLINE void turn(const void* const* rows, int count, std::int64_t w, std::int64_t d, std::int64_t n,
                         float* out) {
  alignas(64) Vec x[16 * kChainVecs];
#pragma GCC unroll 16
  for (int r = 0; r < 16; ++r) {
#pragma GCC unroll 16
    for (int i = 0; i < kChainVecs; ++i) {
      x[r * kChainVecs + i] = kWide || r < count ? load_row<K, kWide>(rows[r], w + i * kL, d) : Vec(0.0F);
    }
  }
#if defined(ISOTONE_ATTENTION_AVX512)
  transpose16(x);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    if (kWide || i < n) {
      x[i].store(out + i * kBlock);
    }
  }
#else
  float plain[16][16];
  for (int i = 0; i < 16 * kChainVecs; ++i) {
    x[i].store(&plain[0][0] + i * kL);
  }
  for (std::int64_t i = 0; i < n; ++i) {
    for (int r = 0; r < 16; ++r) {
      out[i * kBlock + r] = plain[r][i];
    }
  }
#endif
}
template <class K>
void pack_transposed(const void* const* rows, int count, std::int64_t d, float* out) {
#if defined(ISOTONE_ATTENTION_AVX512)
  if constexpr (K::kSwap) {  // turned as pairs, then widened: half the shuffles
    using Pair = Kind<DType::bf16, true>;
    const std::int64_t pairs = Pair::words(d);
    alignas(64) float turned[kMaxWords * kBlock];
    pack_transposed<Pair>(rows, count, d, turned);
    for (std::int64_t i = 0; i < pairs * kBlock; i += kL) {
      const Vec x = Vec::load(turned + i);
      float* to = out + i / kBlock * 2 * kBlock + i % kBlock;
      Vec::from_bits(shl<16>(bits(x))).store(to);
      Vec::from_bits(bits(x) & Vec::I(-65536)).store(to + kBlock);
    }
    return;
  }
#endif
  const std::int64_t words = K::words(d);
  for (int j = 0; j < kBlock; j += 16) {
    for (std::int64_t w = 0; w < words; w += 16) {
      const std::int64_t n = words - w < 16 ? words - w : 16;
      float* to = out + w * kBlock + j;
      if (d % 32 == 0 && j + 16 <= count) {
        turn<K, true>(rows + j, 16, w, d, 16, to);
      } else {
        turn<K, false>(rows + j, count - j, w, d, n, to);
      }
    }
  }
}

template <class K, bool kWide>
ISOTONE_INLINE void pack_rows_as(const void* const* rows, int count, std::int64_t d, std::int64_t width, float* out) {
  using I = typename Vec::I;
  const auto half = [&](int r, std::int64_t c) __attribute__((always_inline)) {
    const std::int64_t n = kWide ? kL : d - c < 0 ? 0 : d - c;
    return r < count ? Vec::load_words16(static_cast<const std::uint16_t*>(rows[r]) + c, n) : I(0);
  };
  for (int w = 0; w < K::kBlockWords; ++w) {
    for (std::int64_t c = 0; c < width; c += kL) {
      Vec x(0.0F);
      if constexpr (K::kPairs) {
        x = Vec::from_bits(half(2 * w, c) | shl<16>(half(2 * w + 1, c)));
      } else if (w < count) {
        x = K::load_values(rows[w], c, kWide ? c + kL : d);
      }
      x.store(out + w * width + c);
    }
  }
}
template <class K>
void pack_rows(const void* const* rows, int count, std::int64_t d, std::int64_t width, float* out) {
  d == width ? pack_rows_as<K, true>(rows, count, d, width, out) : pack_rows_as<K, false>(rows, count, d, width, out);
}

}  // namespace
}  // namespace isotone::cpu::attention
