// The contraction kernels, once, over a vector type V (see contract_vec_*.h). Included by one file per instruction set,
// after its V; everything is in an unnamed namespace, so that no code compiled for one set can be linked into another.
// NOLINTBEGIN(google-build-namespaces)
#pragma once

#include "backends/cpu/kernels/contract_table.h"

namespace isotone::cpu {
namespace {

/// bf16 is the profile pairdot-1, blocks is bf16 under amx-1.
enum class Kind { f32, bf16, f16, blocks, q8_0, q4_0, q4_1 };

constexpr int kPrefetchAhead = 4096;  // bytes

constexpr bool is_quant(Kind kind) {
  return kind >= Kind::q8_0;
}

/// Vectors across for a tile of `rows`: as many as the registers hold beside one row of B and two broadcasts. Under
/// amx-1 the two chains of a block are held, and their sum is not.
template <class V>
constexpr int vectors_across(int rows, Kind kind) {
  int across = static_cast<int>(kPanel) / V::W;
  const int chains = kind == Kind::blocks ? 2 : 1;
  while (across > 1 && chains * rows * across + (is_quant(kind) ? 10 : across + 2) > V::kRegisters) {
    across /= 2;
  }
  return across;
}

template <class V, CFormat kFormat>
inline void write_row(const float* from, char* c, std::int64_t column_stride, std::int64_t count) {
  constexpr int kBytes = kFormat == CFormat::f32 ? 4 : 2;
  const auto put = [](char* to, const float* values) {
    const typename V::F x = V::canonical(V::load(values));
    if constexpr (kFormat == CFormat::f32) {
      V::store(reinterpret_cast<float*>(to), x);
    } else if constexpr (kFormat == CFormat::bf16) {
      V::store_bf16(reinterpret_cast<std::uint16_t*>(to), x);
    } else {
      V::store_f16(reinterpret_cast<std::uint16_t*>(to), x);
    }
  };
  std::int64_t i = 0;
  if (column_stride == 1) {
    for (; i + V::W <= count; i += V::W) {
      put(c + i * kBytes, from + i);
    }
  }
  for (; i < count; i += V::W) {
    alignas(64) char rounded[V::W * 4];
    put(rounded, from + i);
    const std::int64_t left = count - i < V::W ? count - i : V::W;
    for (std::int64_t j = 0; j < left; ++j) {
      __builtin_memcpy(c + (i + j) * column_stride * kBytes, rounded + j * kBytes, kBytes);
    }
  }
}

/// Weights stream from memory or an outer cache: ask for what follows early (measured: up to twice as fast at few
/// rows).
template <int kBytes>
inline __attribute__((always_inline)) void prefetch_weights(const char* b) {
#pragma GCC unroll 16
  for (int i = 0; i < kBytes; i += 64) {
    __builtin_prefetch(b + kPrefetchAhead + i);
  }
}

/// The chains of one leaf: acc[r][v] += over k, in the order of the profile pairdot-1.
template <class V, Kind kKind, int kRows, int kAcross>
inline __attribute__((always_inline)) void run_chains(typename V::F (&acc)[kRows][kAcross], const char* a,
                                                      const char* b, std::int64_t length) {
  using F = typename V::F;
  if constexpr (kKind == Kind::f32 || kKind == Kind::f16) {
    constexpr int kBytes = kKind == Kind::f32 ? 4 : 2;
    const float* ap = reinterpret_cast<const float*>(a);
    for (std::int64_t k = 0; k < length; ++k) {
      prefetch_weights<kAcross * V::W * kBytes>(b);
      F bv[kAcross];
#pragma GCC unroll 16
      for (int v = 0; v < kAcross; ++v) {
        if constexpr (kKind == Kind::f32) {
          bv[v] = V::load(reinterpret_cast<const float*>(b) + v * V::W);
        } else {
          bv[v] = V::load_f16(reinterpret_cast<const std::uint16_t*>(b) + v * V::W);
        }
      }
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const F av = V::broadcast(ap + r);
#pragma GCC unroll 16
        for (int v = 0; v < kAcross; ++v) {
          acc[r][v] = V::fma(av, bv[v], acc[r][v]);
        }
      }
      ap += kRows;
      b += kPanel * kBytes;
    }
  } else {
    const std::int64_t pairs = (length + 1) / 2;
    for (std::int64_t p = 0; p < pairs; ++p) {
      prefetch_weights<kAcross * V::W * 4>(b);
      if constexpr (V::kPairDot) {
        typename V::I bv[kAcross];
#pragma GCC unroll 16
        for (int v = 0; v < kAcross; ++v) {
          bv[v] = V::load_words(b + v * V::W * 4);
        }
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) {
          const typename V::I av = V::broadcast_word(a + r * 4);
#pragma GCC unroll 16
          for (int v = 0; v < kAcross; ++v) {
            acc[r][v] = V::pair_dot(acc[r][v], av, bv[v]);
          }
        }
        a += kRows * 4;
      } else {
        const float* ap = reinterpret_cast<const float*>(a);
        F bv[kAcross];
#pragma GCC unroll 16
        for (int v = 0; v < kAcross; ++v) {
          bv[v] = V::upper_half(V::load_words(b + v * V::W * 4));
        }
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) {
          const F av = V::broadcast(ap + r);
#pragma GCC unroll 16
          for (int v = 0; v < kAcross; ++v) {
            acc[r][v] = V::fma(av, bv[v], acc[r][v]);
          }
        }
#pragma GCC unroll 16
        for (int v = 0; v < kAcross; ++v) {
          bv[v] = V::lower_half(V::load_words(b + v * V::W * 4));
        }
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) {
          const F av = V::broadcast(ap + kRows + r);
#pragma GCC unroll 16
          for (int v = 0; v < kAcross; ++v) {
            acc[r][v] = V::fma(av, bv[v], acc[r][v]);
          }
        }
        a += kRows * 8;
      }
      b += kPanel * 4;
    }
  }
}

/// The same under amx-1: blocks of 16 pairs, one chain over even and one over odd elements, from +0 each.
template <class V, int kRows, int kAcross>
inline __attribute__((always_inline)) void run_chain_blocks(typename V::F (&acc)[kRows][kAcross], const char* a,
                                                            const char* b, std::int64_t length) {
  using F = typename V::F;
  const std::int64_t pairs = (length + 1) / 2;
  for (std::int64_t begin = 0; begin < pairs; begin += 16) {
    F even[kRows][kAcross];
    F odd[kRows][kAcross];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (int v = 0; v < kAcross; ++v) {
        even[r][v] = V::zero();
        odd[r][v] = V::zero();
      }
    }
    const std::int64_t end = begin + 16 < pairs ? begin + 16 : pairs;
    for (std::int64_t p = begin; p < end; ++p) {
      prefetch_weights<kAcross * V::W * 4>(b);
      const float* ap = reinterpret_cast<const float*>(a);
      F bv[kAcross];
#pragma GCC unroll 16
      for (int v = 0; v < kAcross; ++v) {
        bv[v] = V::upper_half(V::load_words(b + v * V::W * 4));
      }
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const F av = V::broadcast(ap + r);
#pragma GCC unroll 16
        for (int v = 0; v < kAcross; ++v) {
          odd[r][v] = V::fma(av, bv[v], odd[r][v]);
        }
      }
#pragma GCC unroll 16
      for (int v = 0; v < kAcross; ++v) {
        bv[v] = V::lower_half(V::load_words(b + v * V::W * 4));
      }
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const F av = V::broadcast(ap + kRows + r);
#pragma GCC unroll 16
        for (int v = 0; v < kAcross; ++v) {
          even[r][v] = V::fma(av, bv[v], even[r][v]);
        }
      }
      a += kRows * 8;
      b += kPanel * 4;
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (int v = 0; v < kAcross; ++v) {
        acc[r][v] = V::add(acc[r][v], V::add(even[r][v], odd[r][v]));
      }
    }
  }
}

constexpr std::int64_t quant_block_bytes(Kind kind) {
  return kPanel * (kind == Kind::q8_0 ? 34 : kind == Kind::q4_0 ? 18 : 20);
}

/// The same for quantised weights: blocks of 32 features, one exact integer dot each.
/// `b` is at the block (scales[64] f16, for q4_1 minima[64] f16, codes [groups of 4][64][4]), `column` its first
/// column.
template <class V, Kind kKind, int kRows, int kAcross>
inline __attribute__((always_inline)) void run_blocks(typename V::F (&acc)[kRows][kAcross], const char* a,
                                                      const char* b, std::int64_t column, std::int64_t length) {
  using F = typename V::F;
  using I = typename V::I;
  constexpr int kBias = kKind == Kind::q8_0 ? V::kQ8Bias : kKind == Kind::q4_0 ? 8 : 0;
  for (std::int64_t block = 0; block < length / 32; ++block) {
    const std::int32_t* sums = reinterpret_cast<const std::int32_t*>(a + kRows * 32);
    const float* scales = reinterpret_cast<const float*>(a + kRows * 36);
    const std::uint16_t* d = reinterpret_cast<const std::uint16_t*>(b) + column;
    const char* codes = b + kPanel * (kKind == Kind::q4_1 ? 4 : 2) + column * 4;
#pragma GCC unroll 16
    for (int v = 0; v < kAcross; ++v) {
      I w[8];
#pragma GCC unroll 8
      for (int g = 0; g < (kKind == Kind::q8_0 ? 8 : 4); ++g) {
        const I x = V::load_words(codes + g * kPanel * 4 + v * V::W * 4);
        if constexpr (kKind == Kind::q8_0) {
          w[g] = x;
        } else {
          w[g] = V::low_nibbles(x);
          w[g + 4] = V::high_nibbles(x);
        }
      }
      const F dw = V::load_f16(d + v * V::W);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        I dot = V::broadcast_int(-kBias * sums[r]);
#pragma GCC unroll 8
        for (int g = 0; g < 8; ++g) {
          const I x = V::broadcast_word(a + (g * kRows + r) * 4);
          dot = kKind == Kind::q8_0 ? V::dot_q8(dot, w[g], x) : V::dot_q4(dot, w[g], x);
        }
        const F da = V::broadcast(scales + r);
        acc[r][v] = V::fma(V::to_float(dot), V::mul(dw, da), acc[r][v]);
        if constexpr (kKind == Kind::q4_1) {
          const F mw = V::load_f16(d + kPanel + v * V::W);
          acc[r][v] = V::fma(V::to_float(V::broadcast_int(sums[r])), V::mul(mw, da), acc[r][v]);
        }
      }
    }
    a += kRows * 40;
    b += quant_block_bytes(kKind);
  }
}

template <class V, Kind kKind>
constexpr std::int64_t a_row_bytes_per_32() {  // bytes of one packed row of A over 32 features
  return is_quant(kKind) ? 40 : (kKind == Kind::bf16 && V::kPairDot) ? 64 : 128;
}

template <Kind kKind>
constexpr std::int64_t b_panel_bytes_per_32() {
  return is_quant(kKind) ? quant_block_bytes(kKind) : kKind == Kind::f32 ? kPanel * 128 : kPanel * 64;
}

/// One tile over its whole tree: leaves in order, finished nodes on a stack, left plus right.
template <class V, Kind kKind, int kRows>
void run_tile(const TileArgs& t) {
  using F = typename V::F;
  constexpr int kAcross = vectors_across<V>(kRows, kKind);
  constexpr int kColumns = kAcross * V::W;
  alignas(64) float stack[kMaxTreeDepth][kRows * kColumns];
  for (std::int64_t column = 0; column < t.columns; column += kColumns) {
    std::int64_t top = 0;
    for (std::int64_t s = 0; s < t.step_count; ++s) {
      const LeafStep& step = t.steps[s];
      // Leaves begin at multiples of 32 (tree.h), so pairs and blocks never straddle one.
      const char* a = static_cast<const char*>(t.a) + step.outer * t.a_outer_bytes +
                      step.begin / 32 * kRows * a_row_bytes_per_32<V, kKind>();
      const char* b = static_cast<const char*>(t.b) + step.outer * t.b_outer_bytes +
                      step.begin / 32 * b_panel_bytes_per_32<kKind>();
      F acc[kRows][kAcross];
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
        for (int v = 0; v < kAcross; ++v) {
          acc[r][v] = V::zero();
        }
      }
      if constexpr (is_quant(kKind)) {
        run_blocks<V, kKind, kRows, kAcross>(acc, a, b, column, step.length);
      } else if constexpr (kKind == Kind::blocks) {
        run_chain_blocks<V, kRows, kAcross>(acc, a, b + column * 4, step.length);
      } else {
        run_chains<V, kKind, kRows, kAcross>(acc, a, b + column * (kKind == Kind::f16 ? 2 : 4), step.length);
      }
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
        for (int v = 0; v < kAcross; ++v) {
          acc[r][v] = V::add(acc[r][v], V::zero());
        }
      }
      for (std::int64_t i = 0; i < step.merges; ++i) {
        --top;
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
          for (int v = 0; v < kAcross; ++v) {
            acc[r][v] = V::add(V::load(&stack[top][r * kColumns + v * V::W]), acc[r][v]);
          }
        }
      }
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
        for (int v = 0; v < kAcross; ++v) {
          V::store(&stack[top][r * kColumns + v * V::W], acc[r][v]);
        }
      }
      ++top;
    }
    const std::int64_t count = t.columns - column < kColumns ? t.columns - column : kColumns;
    for (int r = 0; r < kRows; ++r) {
      const float* from = &stack[0][r * kColumns];
      const std::int64_t at = r * t.c_row_stride + column * t.c_column_stride;
      char* c = static_cast<char*>(t.c);
      switch (t.c_format) {
        case CFormat::f32:
          write_row<V, CFormat::f32>(from, c + at * 4, t.c_column_stride, count);
          break;
        case CFormat::bf16:
          write_row<V, CFormat::bf16>(from, c + at * 2, t.c_column_stride, count);
          break;
        case CFormat::f16:
          write_row<V, CFormat::f16>(from, c + at * 2, t.c_column_stride, count);
          break;
      }
    }
  }
}

}  // namespace
}  // namespace isotone::cpu
// NOLINTEND(google-build-namespaces)
