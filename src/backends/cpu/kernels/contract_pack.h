// Packing and quantising of operands over a vector type V, and the table that a file per instruction set exports.
// Included after contract_tile.h's V; unnamed namespace for the same reason.
#pragma once

#include <utility>

#include "backends/cpu/kernels/contract_lanes.h"
#include "backends/cpu/kernels/contract_tile.h"

namespace isotone::cpu {
namespace {

inline float widen_half(std::uint16_t bits) {
  StoredHalf half;
  __builtin_memcpy(&half, &bits, 2);
  return static_cast<float>(half);
}

inline float widen_bfloat(std::uint16_t bits) {
  const std::uint32_t word = static_cast<std::uint32_t>(bits) << 16;
  float value = 0;
  __builtin_memcpy(&value, &word, 4);
  return value;
}

/// One element at a time: any strides, k in [begin, end) with `begin` even.
inline void pack_scalar(PackFormat format, const void* source, std::int64_t row_stride, std::int64_t k_stride,
                        std::int64_t rows, std::int64_t width, std::int64_t begin, std::int64_t end, void* target) {
  const auto* words = static_cast<const std::uint32_t*>(source);
  const auto* halves = static_cast<const std::uint16_t*>(source);
  for (std::int64_t k = begin; k < end; ++k) {
    const bool odd_missing = (k % 2 == 0) && k + 1 == end;
    for (std::int64_t r = 0; r < width; ++r) {
      const bool there = r < rows;
      const std::int64_t at = r * row_stride + k * k_stride;
      switch (format) {
        case PackFormat::words:
          static_cast<std::uint32_t*>(target)[k * width + r] = there ? words[at] : 0;
          break;
        case PackFormat::halves:
          static_cast<std::uint16_t*>(target)[k * width + r] = there ? halves[at] : 0;
          break;
        case PackFormat::widened:
          static_cast<float*>(target)[k * width + r] = there ? widen_half(halves[at]) : 0;
          break;
        case PackFormat::pairs: {
          auto* to = static_cast<std::uint16_t*>(target) + (k / 2 * width + r) * 2 + k % 2;
          to[0] = there ? halves[at] : 0;
          if (odd_missing) {
            to[1] = 0;
          }
          break;
        }
        case PackFormat::swapped: {
          auto* to = static_cast<float*>(target);
          to[(k ^ 1) * width + r] = there ? widen_bfloat(halves[at]) : 0;
          if (odd_missing) {
            to[k * width + r] = 0;
          }
          break;
        }
        case PackFormat::tiles:  // packed by the one table that asks for it
          break;
      }
    }
  }
}

template <class V>
void pack_operand(PackFormat format, const void* source, std::int64_t row_stride, std::int64_t k_stride,
                  std::int64_t rows, std::int64_t width, std::int64_t k, void* target) {
  using I = typename V::I;
  std::int64_t done = 0;
  const bool words = format == PackFormat::words;
  const bool pairs = format == PackFormat::pairs;
  const bool swapped = format == PackFormat::swapped;
  auto* to = static_cast<std::uint32_t*>(target);
  if constexpr (V::W > 1) {
    if (k_stride == 1 && (words || pairs || swapped)) {
      // Rows of 32-bit words (elements, or pairs of bf16): W rows by W words are transposed in registers.
      const std::int64_t per_word = words ? 1 : 2;
      const std::int64_t step = V::W * per_word;
      const std::int64_t row_bytes = row_stride * (words ? 4 : 2);
      for (std::int64_t r0 = 0; r0 < width; r0 += V::W) {
        const std::int64_t lanes = width - r0 < V::W ? width - r0 : V::W;
        for (std::int64_t k0 = 0; k0 + step <= k; k0 += step) {
          I x[V::W];
          const char* from = static_cast<const char*>(source) + r0 * row_bytes + k0 * (words ? 4 : 2);
#pragma GCC unroll 16
          for (int i = 0; i < V::W; ++i) {
            x[i] = r0 + i < rows ? V::load_words(from + i * row_bytes) : V::broadcast_int(0);
          }
          V::transpose(x);
#pragma GCC unroll 16
          for (int i = 0; i < V::W; ++i) {
            if (swapped) {
              std::uint32_t* at = to + (k0 + 2 * i) * width + r0;
              V::store_words(at, V::as_words(V::upper_half(x[i])), lanes);
              V::store_words(at + width, V::as_words(V::lower_half(x[i])), lanes);
            } else {
              V::store_words(to + (k0 / per_word + i) * width + r0, x[i], lanes);
            }
          }
        }
      }
      done = k / step * step;
    } else if (row_stride == 1 && (words || pairs || swapped)) {
      const std::int64_t step = words ? 1 : 2;
      for (; done + step <= k; done += step) {
        for (std::int64_t r0 = 0; r0 < width; r0 += V::W) {
          const std::int64_t lanes = width - r0 < V::W ? width - r0 : V::W;
          const std::int64_t valid = rows - r0 < 0 ? 0 : rows - r0 < lanes ? rows - r0 : lanes;
          if (words) {
            const auto* from = static_cast<const std::uint32_t*>(source) + done * k_stride + r0;
            V::store_words(to + done * width + r0, V::load_words_part(from, valid), lanes);
            continue;
          }
          const auto* from = static_cast<const std::uint16_t*>(source) + done * k_stride + r0;
          const I even = V::load_u16_part(from, valid);
          const I odd = V::shift_up(V::load_u16_part(from + k_stride, valid));
          if (pairs) {
            V::store_words(to + done / 2 * width + r0, V::bit_or(even, odd), lanes);
          } else {
            V::store_words(to + done * width + r0, odd, lanes);
            V::store_words(to + (done + 1) * width + r0, V::shift_up(even), lanes);
          }
        }
      }
    }
  }
  pack_scalar(format, source, row_stride, k_stride, rows, width, done, k, target);
}

/// Section 9: per 32 features scale = absmax / 127, codes to nearest even; a block that is not finite gets scale NaN.
template <class V>
void quantise_rows(const void* source, bool is_bf16, std::int64_t row_stride, std::int64_t k_stride, std::int64_t rows,
                   std::int64_t blocks, void* target) {
  using F = typename V::F;
  alignas(64) float x[32];
  alignas(64) std::int32_t code[32];
  for (std::int64_t block = 0; block < blocks; ++block) {
    char* to = static_cast<char*>(target) + block * rows * 40;
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t at = r * row_stride + block * 32 * k_stride;
      if (k_stride == 1) {
#pragma GCC unroll 4
        for (int i = 0; i < 32; i += V::W) {
          V::store(x + i, is_bf16 ? V::load_bf16(static_cast<const std::uint16_t*>(source) + at + i)
                                  : V::load(static_cast<const float*>(source) + at + i));
        }
      } else {
        for (int i = 0; i < 32; ++i) {
          x[i] = is_bf16 ? widen_bfloat(static_cast<const std::uint16_t*>(source)[at + i * k_stride])
                         : static_cast<const float*>(source)[at + i * k_stride];
        }
      }
      // Absolute values compare as integers; an infinity or a not-a-number is then the largest.
      std::uint32_t largest = 0;
      for (int i = 0; i < 32; ++i) {
        std::uint32_t bits = 0;
        __builtin_memcpy(&bits, x + i, 4);
        bits &= 0x7fffffffU;
        largest = bits > largest ? bits : largest;
      }
      const bool finite = largest < 0x7f800000U;
      float absmax = 0;
      __builtin_memcpy(&absmax, &largest, 4);
      const float scale = finite ? absmax / 127.0F : __builtin_nanf("");
      std::int32_t sum = 0;
      if (scale > 0) {
        const F d = V::broadcast(&scale);
#pragma GCC unroll 4
        for (int i = 0; i < 32; i += V::W) {
          V::store_rounded(code + i, V::divide(V::load(x + i), d));
        }
        for (int i = 0; i < 32; ++i) {
          sum += code[i];
        }
      } else {
        __builtin_memset(code, 0, sizeof code);
      }
      for (int g = 0; g < 8; ++g) {
        const std::uint32_t word = (static_cast<std::uint32_t>(code[4 * g]) & 255U) |
                                   (static_cast<std::uint32_t>(code[4 * g + 1]) & 255U) << 8 |
                                   (static_cast<std::uint32_t>(code[4 * g + 2]) & 255U) << 16 |
                                   static_cast<std::uint32_t>(code[4 * g + 3]) << 24;
        __builtin_memcpy(to + (g * rows + r) * 4, &word, 4);
      }
      __builtin_memcpy(to + rows * 32 + r * 4, &sum, 4);
      __builtin_memcpy(to + rows * 36 + r * 4, &scale, 4);
    }
  }
}

template <class V, Kind kKind, class Sequence>
struct TileRow;
template <class V, Kind kKind, int... kIndex>
struct TileRow<V, kKind, std::integer_sequence<int, kIndex...>> {
  static constexpr TileFunction functions[] = {&run_tile<V, kKind, kIndex + 1>...};
};

template <class V, Kind kKind>
constexpr const TileFunction* tile_functions() {
  return TileRow<V, kKind, std::make_integer_sequence<int, is_quant(kKind) ? V::kQuantRows : V::kRows>>::functions;
}

template <class V>
constexpr KernelTable make_table() {
  return KernelTable{
      .max_rows = V::kRows,
      .max_rows_quant = V::kQuantRows,
      .a_bf16 = V::kPairDot ? PackFormat::pairs : PackFormat::swapped,
      .f32 = tile_functions<V, Kind::f32>(),
      .bf16 = tile_functions<V, Kind::bf16>(),
      .f16 = tile_functions<V, Kind::f16>(),
      .quant = {tile_functions<V, Kind::q8_0>(), tile_functions<V, Kind::q4_0>(), tile_functions<V, Kind::q4_1>()},
      .max_rows_blocks = V::kRows,
      .a_blocks = PackFormat::swapped,
      .bf16_blocks = tile_functions<V, Kind::blocks>(),
      .lanes_blocks = &run_lanes<V, Kind::blocks>,
      .finish = nullptr,
      .lanes_f32 = &run_lanes<V, Kind::f32>,
      .lanes_bf16 = &run_lanes<V, Kind::bf16>,
      .lanes_f16 = &run_lanes<V, Kind::f16>,
      .pack = &pack_operand<V>,
      .quantise = &quantise_rows<V>,
  };
}

}  // namespace
}  // namespace isotone::cpu
