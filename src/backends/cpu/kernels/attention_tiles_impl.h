// The attention tiles over one vector type (attention_simd.h), for each dtype: included by one file an instruction set.
// Lanes run over outputs; the order of every sum is that of attention_reference.cc.
#pragma once

#include <cstring>

#include "backends/cpu/kernels/attention_simd.h"
#include "backends/cpu/kernels/attention_tiles.h"

namespace isotone::cpu::attention {
namespace {

constexpr int kL = Vec::kLanes;
constexpr int kR = Vec::kRows;
constexpr int kBlockVecs = kBlock / kL;
constexpr int kChainVecs = 16 / kL;
constexpr int kMaxWords = 128;  // pairs in the widest head

/// How one dtype is packed and multiplied. T::kPairs: words of two bf16; T::kSwap: bf16 widened, odd before even.
template <DType D, bool kNative>
struct Kind {
  static constexpr DType kType = D;
  static constexpr bool kPairs = D == DType::bf16 && kNative;
  static constexpr bool kSwap = D == DType::bf16 && !kNative;
  static constexpr int kBytes = D == DType::f32 ? 4 : 2;
  static constexpr int kPerWord = kPairs ? 2 : 1;
  static constexpr int kBlockWords = kBlock / kPerWord;

  static std::int64_t words(std::int64_t d) { return kPairs ? (d + 1) / 2 : kSwap ? (d + 1) / 2 * 2 : d; }

  /// Words [w, w + kL) of a row of d elements.
  static ISOTONE_INLINE Vec load_words(const void* row, std::int64_t w, std::int64_t d) {
    if constexpr (D == DType::f32) {
      return Vec::load_some(static_cast<const float*>(row) + w, d - w < 0 ? 0 : d - w);
    } else if constexpr (D == DType::f16) {
      return Vec::widen_f16(static_cast<const std::uint16_t*>(row) + w, d - w < 0 ? 0 : d - w);
    } else if constexpr (kSwap) {
      return Vec::from_bits(
          shl<16>(Vec::load_words16(static_cast<const std::uint16_t*>(row) + w, d - w < 0 ? 0 : d - w)));
    } else {
      const std::int64_t left = d - 2 * w;
      if (left >= 2 * kL) {
        return Vec::load(reinterpret_cast<const float*>(static_cast<const std::uint16_t*>(row) + 2 * w));
      }
      std::uint16_t some[2 * kL] = {};
      if (left > 0) {
        std::memcpy(some, static_cast<const std::uint16_t*>(row) + 2 * w, static_cast<std::size_t>(left) * 2);
      }
      return Vec::load(reinterpret_cast<const float*>(some));
    }
  }
  /// Elements [c, c + kL) of a row, widened.
  static ISOTONE_INLINE Vec load_values(const void* row, std::int64_t c, std::int64_t d) {
    const std::int64_t n = d - c < 0 ? 0 : d - c;
    if constexpr (D == DType::f32) {
      return Vec::load_some(static_cast<const float*>(row) + c, n);
    } else if constexpr (D == DType::f16) {
      return Vec::widen_f16(static_cast<const std::uint16_t*>(row) + c, n);
    } else {
      return Vec::from_bits(shl<16>(Vec::load_words16(static_cast<const std::uint16_t*>(row) + c, n)));
    }
  }
  static ISOTONE_INLINE typename Vec::I narrow_bf16(Vec x) {
    using I = typename Vec::I;
    const I u = bits(fmath::canonical(x));
    return sar<16>(u + I(0x7fff) + (sar<16>(u) & I(1))) & I(0xffff);
  }
  /// Rounds kL neighbouring weights (p or dS) to the dtype and puts them at `slot` of a left operand's row.
  static ISOTONE_INLINE void store_weights(float* row, int slot, Vec x) {
    if constexpr (D == DType::f32) {
      x.store(row + slot);
    } else if constexpr (D == DType::f16) {
      Vec::round_f16(x).store(row + slot);
    } else if constexpr (kSwap) {
      Vec::from_bits(shl<16>(narrow_bf16(x))).store(row + slot);
    } else {
      std::uint16_t* half = reinterpret_cast<std::uint16_t*>(row) + slot;
#if defined(__AVX512BF16__)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(half), (__m256i)_mm512_cvtneps_pbh(x.v));
#else
      Vec::store_words16(half, narrow_bf16(x), kL);
#endif
    }
  }
  /// Puts a row of weights, which has columns [from, to), into row `r` of a block [64][64] of the dtype; the rest is
  /// +0.
  static void keep_row(const float* row, int from, int to, void* block, int r) {
    char* out = static_cast<char*>(block) + r * kBlock * kBytes;
    std::memset(out, 0, static_cast<std::size_t>(from) * kBytes);
    std::memset(out + to * kBytes, 0, static_cast<std::size_t>(kBlock - to) * kBytes);
    if constexpr (D == DType::f32 || kPairs) {
      std::memcpy(out + from * kBytes, reinterpret_cast<const char*>(row) + from * kBytes,
                  static_cast<std::size_t>(to - from) * kBytes);
    } else {
      for (int j = from; j < to; j += kL) {
        store_values(out, j, kBlock, Vec::load(row + j));
      }
    }
  }
  static ISOTONE_INLINE void store_values(void* out, std::int64_t c, std::int64_t d, Vec x) {
    const Vec y = fmath::canonical(x);
    if constexpr (D == DType::f32) {
      y.store_some(static_cast<float*>(out) + c, d - c);
    } else {
      Vec::store_words16(static_cast<std::uint16_t*>(out) + c, D == DType::f16 ? Vec::narrow_f16(y) : narrow_bf16(y),
                         d - c);
    }
  }
  static ISOTONE_INLINE Vec multiply_add(Vec a, Vec b, Vec c) {
#if defined(__AVX512BF16__)
    if constexpr (kPairs) {
      return _mm512_dpbf16_ps(c.v, (__m512bh)_mm512_castps_si512(a.v), (__m512bh)_mm512_castps_si512(b.v));
    }
#endif
    return fma(a, b, c);
  }
};

// ---- the register tile: C[R][N vectors] = A[R][k words] * B[k words][N vectors], k in [begin, end) ----
// kT: A lies transposed, [k words][lda].
template <class K, bool kT, int R, int N>
void micro(const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float* c, std::int64_t ldc,
           std::int64_t begin, std::int64_t end) {
  Vec acc[R][N];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) {
      acc[r][n] = Vec(0.0F);
    }
  }
  const auto step = [&](std::int64_t k) __attribute__((always_inline)) {
    Vec bv[N];
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) {
      bv[n] = Vec::load(b + k * ldb + n * kL);
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const Vec av(kT ? a[k * lda + r] : a[r * lda + k]);
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) {
        acc[r][n] = K::multiply_add(av, bv[n], acc[r][n]);
      }
    }
  };
  if constexpr (K::kSwap) {
    for (std::int64_t k = begin; k < end; k += 2) {
      step(k + 1);
      step(k);
    }
  } else {
    for (std::int64_t k = begin; k < end; ++k) {
      step(k);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) {
      (acc[r][n] + Vec(0.0F)).store(c + r * ldc + n * kL);
    }
  }
}

template <class K, bool kT, int N>
void micro_rows(int rows, const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float* c,
                std::int64_t ldc, std::int64_t begin, std::int64_t end) {
  switch (rows) {
    case 1:
      return micro<K, kT, 1, N>(a, lda, b, ldb, c, ldc, begin, end);
    case 2:
      return micro<K, kT, 2, N>(a, lda, b, ldb, c, ldc, begin, end);
    default:
      break;
  }
  if constexpr (kR > 2) {
    switch (rows) {
      case 3:
        return micro<K, kT, 3, N>(a, lda, b, ldb, c, ldc, begin, end);
      case 4:
        return micro<K, kT, 4, N>(a, lda, b, ldb, c, ldc, begin, end);
      case 5:
        return micro<K, kT, 5, N>(a, lda, b, ldb, c, ldc, begin, end);
      default:
        return micro<K, kT, 6, N>(a, lda, b, ldb, c, ldc, begin, end);
    }
  }
}

/// Up to kR rows, columns [from, to) (multiples of 16).
template <class K, bool kT = false>
void multiply(int rows, const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float* c, std::int64_t ldc,
              std::int64_t begin, std::int64_t end, std::int64_t from, std::int64_t to) {
  constexpr int kWide = Vec::kPanel * kL;
  for (; to - from >= kWide; from += kWide) {
    micro_rows<K, kT, Vec::kPanel>(rows, a, lda, b + from, ldb, c + from, ldc, begin, end);
  }
  if constexpr (kL == 16) {
    switch ((to - from) / 16) {
      case 3:
        return micro_rows<K, kT, 3>(rows, a, lda, b + from, ldb, c + from, ldc, begin, end);
      case 2:
        return micro_rows<K, kT, 2>(rows, a, lda, b + from, ldb, c + from, ldc, begin, end);
      case 1:
        return micro_rows<K, kT, 1>(rows, a, lda, b + from, ldb, c + from, ldc, begin, end);
      default:
        return;
    }
  }
}

/// What the rows of a group see together, and the ranges of columns and of words of a weights row that cover it.
struct Cover {
  int lo = kBlock, hi = 0, from = 0, to = 0;
  std::int64_t begin = 0, end = 0;
};
template <class K>
ISOTONE_INLINE Cover cover(const Slots* seen, int rows) {
  Cover c;
  for (int r = 0; r < rows; ++r) {
    if (seen[r].lo < seen[r].hi) {
      c.lo = seen[r].lo < c.lo ? seen[r].lo : c.lo;
      c.hi = seen[r].hi > c.hi ? seen[r].hi : c.hi;
    }
  }
  if (c.lo < c.hi) {
    c.from = c.lo / 16 * 16;
    c.to = (c.hi + 15) / 16 * 16;
    constexpr int kUnit = K::kPairs || K::kSwap ? 2 : 1;
    c.begin = c.lo / kUnit * kUnit / K::kPerWord;
    c.end = (c.hi + kUnit - 1) / kUnit * kUnit / K::kPerWord;
  }
  return c;
}

/// How many rows the next register tile takes so that tiles are of equal height.
ISOTONE_INLINE int next_rows(int left) {
  const int tiles = (left + kR - 1) / kR;
  return (left + tiles - 1) / tiles;
}

// ---- forward ----
/// One row: scores to weights over columns [c.from, c.to), the row's maximum and sum. kWhole: all columns are seen.
template <class K, bool kWhole>
ISOTONE_INLINE void softmax_row(const float* s, float scale, Slots seen, const Cover& c, float* p, float* m, float* l) {
  const float low = -__builtin_inff();
  Vec x[kBlockVecs], top[kChainVecs], sum[kChainVecs];
#pragma GCC unroll 16
  for (int i = 0; i < kChainVecs; ++i) {
    top[i] = Vec(low);
    sum[i] = Vec(0.0F);
  }
  const int first = kWhole ? 0 : c.from / kL, last = kWhole ? kBlockVecs : c.to / kL;
#pragma GCC unroll 8
  for (int i = first; i < last; ++i) {
    x[i] = Vec::load(s + i * kL) * Vec(scale);
    if (!kWhole) {
      x[i] = select(Vec::in_range(i * kL, seen.lo, seen.hi), x[i], Vec(low));
    }
    top[i % kChainVecs] = larger(x[i], top[i % kChainVecs]);
  }
  const float maximum = Vec::fold_max(top);
#pragma GCC unroll 8
  for (int i = first; i < last; ++i) {
    Vec e = exp_small(x[i] - Vec(maximum));
    if (!kWhole) {
      e = select(Vec::in_range(i * kL, seen.lo, seen.hi), e, Vec(0.0F));
    }
    sum[i % kChainVecs] = sum[i % kChainVecs] + e;
    K::store_weights(p, i * kL, e);
  }
  *m = maximum;
  *l = Vec::fold_add(sum);
}

template <class K>
void forward(const ForwardBlock& b) {
  alignas(64) float s[kR][kBlock], p[kR][kBlock];
  const std::int64_t words = K::words(b.d);
  for (int r = 0; r < b.rows;) {
    const int n = next_rows(b.rows - r);
    const Cover c = cover<K>(b.seen + r, n);
    multiply<K>(n, b.q + r * words, words, b.kt, kBlock, s[0], kBlock, 0, words, c.from, c.to);
    for (int i = 0; i < n; ++i) {
      const Slots seen = b.seen[r + i];
      if (seen.lo == 0 && seen.hi == kBlock) {
        softmax_row<K, true>(s[i], b.scale, seen, c, p[i], b.m + r + i, b.l + r + i);
      } else {
        softmax_row<K, false>(s[i], b.scale, seen, c, p[i], b.m + r + i, b.l + r + i);
      }
    }
    multiply<K>(n, p[0], kBlock, b.v, b.v_stride, b.o + std::int64_t{r} * b.width, b.width, c.begin, c.end, 0, b.width);
    r += n;
  }
}

// ---- backward ----
template <class K, bool kKeys>
void backward(const BackwardBlock& b) {
  alignas(64) float s[kR][kBlock], dp[kR][kBlock], p[kR][kBlock], ds[kR][kBlock];
  const std::int64_t words = K::words(b.d);
  for (int r = 0; r < b.rows;) {
    const int n = next_rows(b.rows - r);
    const Cover c = cover<K>(b.seen + r, n);
    multiply<K>(n, b.left_s + r * words, words, b.right_s, kBlock, s[0], kBlock, 0, words, c.from, c.to);
    multiply<K>(n, b.left_p + r * words, words, b.right_p, kBlock, dp[0], kBlock, 0, words, c.from, c.to);
    for (int i = 0; i < n; ++i) {
      const Slots seen = b.seen[r + i];
      const bool whole = seen.lo <= c.from && seen.hi >= c.to;
      for (int j = c.from; j < c.to; j += kL) {
        const Vec lse = kKeys ? Vec::load(b.lse + j) : Vec(b.lse[r + i]);
        const Vec delta = kKeys ? Vec::load(b.delta + j) : Vec(b.delta[r + i]);
        const Vec x = Vec::load(s[i] + j) * Vec(b.scale) - lse;
        Vec e = select(Vec(88.0F) < x, fmath::exp_v(x), exp_small(x));
        Vec g = (e * (Vec::load(dp[i] + j) - delta)) * Vec(b.scale);
        if (!whole) {
          const auto in = Vec::in_range(j, seen.lo, seen.hi);
          e = select(in, e, Vec(0.0F));
          g = select(in, g, Vec(0.0F));
        }
        if constexpr (kKeys) {
          K::store_weights(p[i], j, e);
        }
        K::store_weights(ds[i], j, g);
      }
      if (kKeys && b.ds != nullptr) {
        K::keep_row(ds[i], c.from, c.to, b.ds, r + i);
      }
    }
    const std::int64_t at = std::int64_t{r} * b.width;
    if constexpr (kKeys) {
      multiply<K>(n, p[0], kBlock, b.rows_p, b.width, b.out_p + at, b.width, c.begin, c.end, 0, b.width);
    }
    multiply<K>(n, ds[0], kBlock, b.rows_s, b.width, b.out_s + at, b.width, c.begin, c.end, 0, b.width);
    r += n;
  }
}

/// out[row][width] = the sum over keys of ds (transposed: [words(64)][64]) times the keys' rows.
template <class K>
void product(const float* ds, const float* keys, int rows, std::int64_t width, const Slots* seen, float* out) {
  for (int r = 0; r < rows;) {
    const int n = next_rows(rows - r);
    const Cover c = cover<K>(seen + r, n);
    multiply<K, true>(n, ds + r, kBlock, keys, width, out + r * width, width, c.begin, c.end, 0, width);
    r += n;
  }
}

template <class K>
float delta(const void* d_o, const void* o, std::int64_t d) {
  Vec sum[kChainVecs];
  for (int i = 0; i < kChainVecs; ++i) {
    sum[i] = Vec(0.0F);
  }
  for (std::int64_t c = 0; c < d; c += 16) {
    for (int i = 0; i < kChainVecs; ++i) {
      sum[i] = sum[i] + K::load_values(d_o, c + i * kL, d) * K::load_values(o, c + i * kL, d);
    }
  }
  return Vec::fold_add(sum) + 0.0F;
}

// ---- joining and storing ----
void merge(int rows, std::int64_t width, const Side* sides, float* m1, float* l1, float* o1, const float* m2,
           const float* l2, const float* o2) {
  alignas(64) float a1[kBlock], a2[kBlock], m[kBlock], l[kBlock];
  for (int r = 0; r < rows; r += kL) {
    const Vec x = Vec::load(m1 + r), y = Vec::load(m2 + r);
    const Vec top = larger(x, y);
    const Vec f1 = exp_small(x - top), f2 = exp_small(y - top);
    top.store(m + r);
    f1.store(a1 + r);
    f2.store(a2 + r);
    (Vec::load(l1 + r) * f1 + Vec::load(l2 + r) * f2).store(l + r);
  }
  for (int r = 0; r < rows; ++r) {
    float* x = o1 + r * width;
    const float* y = o2 + r * width;
    const Side side = sides == nullptr ? Side::both : sides[r];
    if (side == Side::both) {
      m1[r] = m[r];
      l1[r] = l[r];
      const Vec f1(a1[r]), f2(a2[r]);
      for (std::int64_t c = 0; c < width; c += kL) {
        (Vec::load(x + c) * f1 + Vec::load(y + c) * f2).store(x + c);
      }
    } else if (side == Side::right) {
      m1[r] = m2[r];
      l1[r] = l2[r];
      std::memcpy(x, y, static_cast<std::size_t>(width) * sizeof(float));
    }
  }
}

void add(int rows, std::int64_t width, const Side* sides, float* o1, const float* o2) {
  for (int r = 0; r < rows; ++r) {
    float* x = o1 + r * width;
    const float* y = o2 + r * width;
    const Side side = sides == nullptr ? Side::both : sides[r];
    if (side == Side::both) {
      for (std::int64_t c = 0; c < width; c += kL) {
        (Vec::load(x + c) + Vec::load(y + c)).store(x + c);
      }
    } else if (side == Side::right) {
      std::memcpy(x, y, static_cast<std::size_t>(width) * sizeof(float));
    }
  }
}

template <class K>
void store(const float* o, const float* l, std::int64_t d, void* out) {
  for (std::int64_t c = 0; c < d; c += kL) {
    const Vec x = o == nullptr ? Vec(0.0F) : Vec::load(o + c);
    const Vec y = l == nullptr ? x : divide(x, Vec(*l));
    if (d - c >= kL) {
      K::store_values(out, c, c + kL, y);
    } else {
      K::store_values(out, c, d, y);
    }
  }
}

void log_sum(int rows, const float* m, const float* l, float* out) {
  for (int r = 0; r < rows; r += kL) {
    fmath::canonical(Vec::load(m + r) + fmath::log_v(Vec::load(l + r))).store(out + r);
  }
}

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

template <class K>
constexpr Tiles make_tiles(const char* name) {
  return {name,
          K::kType == DType::f32,
          K::words,
          pack_left<K>,
          pack_transposed<K>,
          pack_rows<K>,
          forward<K>,
          backward<K, false>,
          backward<K, true>,
          product<K>,
          merge,
          add,
          store<K>,
          log_sum,
          delta<K>};
}

template <bool kNative>
const Tiles* make_table() {
  static constexpr Tiles table[3] = {make_tiles<Kind<DType::f32, kNative>>("f32"),
                                     make_tiles<Kind<DType::bf16, kNative>>("bf16"),
                                     make_tiles<Kind<DType::f16, kNative>>("f16")};
  return table;
}

}  // namespace
}  // namespace isotone::cpu::attention
