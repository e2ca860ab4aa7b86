// How each dtype is stored and multiplied, and the register tile of the attention kernels, over one vector type.
// The order of every sum is that of attention_reference.cc.
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

}  // namespace
}  // namespace isotone::cpu::attention
