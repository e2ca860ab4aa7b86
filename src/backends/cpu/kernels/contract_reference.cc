// The contraction as docs/numerics.md states it, in scalar code. Nothing here is for speed.
#include <cmath>

#include "backends/cpu/kernels/contract.h"
#include "base/error.h"
#include "base/half.h"
#include "base/numerics.h"
#include "base/parallel.h"
#include "base/tree.h"

namespace isotone::cpu {
namespace {

float read(const void* data, DType dtype, std::int64_t i) {
  switch (dtype) {
    case DType::f32:
      return static_cast<const float*>(data)[i];
    case DType::bf16:
      return static_cast<float>(static_cast<const bf16*>(data)[i]);
    case DType::f16:
      return static_cast<float>(static_cast<const f16*>(data)[i]);
    default:
      fail("a contraction of {} was asked for; it takes f32, bf16 and f16", dtype_name(dtype));
  }
}

void write(void* data, DType dtype, std::int64_t i, float value) {
  value = value != value ? std::bit_cast<float>(0x7fc00000U) : value;  // one pattern of not-a-number (section 4)
  switch (dtype) {
    case DType::f32:
      static_cast<float*>(data)[i] = value;
      return;
    case DType::bf16:
      static_cast<bf16*>(data)[i] = bf16(value);
      return;
    case DType::f16:
      static_cast<f16*>(data)[i] = f16(value);
      return;
    default:
      fail("a contraction into {} was asked for; it gives f32, bf16 and f16", dtype_name(dtype));
  }
}

float add(float left, float right) {
  return left + right;
}

}  // namespace

void contract_reference(const Contraction& c) {
  const FlushSubnormals flush;
  for (std::int64_t b = 0; b < c.batch; ++b) {
    for (std::int64_t m = 0; m < c.m; ++m) {
      for (std::int64_t n = 0; n < c.n; ++n) {
        const auto grain = [&](std::int64_t o) {
          const std::int64_t a0 = b * c.a.batch_stride + o * c.a.outer_stride + m * c.a.row_stride;
          const std::int64_t b0 = b * c.b.batch_stride + o * c.b.outer_stride + n * c.b.row_stride;
          const auto step = [&](std::int64_t k, float acc) {
            return std::fma(read(c.a.data, c.a.dtype, a0 + k * c.a.k_stride),
                            read(c.b.data, c.b.dtype, b0 + k * c.b.k_stride), acc);
          };
          const auto leaf = [&](std::int64_t begin, std::int64_t length) {
            float acc = 0.0F;
            if (c.a.dtype != DType::bf16) {
              for (std::int64_t k = begin; k < begin + length; ++k) {
                acc = step(k, acc);
              }
            } else if (numerics_profile() == NumericsProfile::amx_1) {
              acc = block_leaf(length, [&](std::int64_t i, float chain) { return step(begin + i, chain); });
            } else {
              for (std::int64_t k = begin; k < begin + length; k += 2) {  // pairs: odd first, then even
                acc = k + 1 < begin + length ? step(k + 1, acc) : std::fma(0.0F, 0.0F, acc);
                acc = step(k, acc);
              }
            }
            return acc + 0.0F;
          };
          return axis_tree(0, c.k, leaf, add);
        };
        write(c.c, c.c_dtype, b * c.c_batch_stride + m * c.c_row_stride + n * c.c_column_stride,
              element_tree(0, c.outer, grain, add));
      }
    }
  }
}

void quantised_reference(const PackedContraction& c, const void* weight, DType dtype, std::int64_t n, std::int64_t k) {
  const FlushSubnormals flush;
  const std::size_t block_bytes = unit_bytes(dtype);
  const auto half_at = [](const unsigned char* p) {
    return static_cast<float>(f16::from_bits(static_cast<std::uint16_t>(p[0] | (p[1] << 8))));
  };
  for (std::int64_t m = 0; m < c.m; ++m) {
    for (std::int64_t row = 0; row < n; ++row) {
      const auto leaf = [&](std::int64_t begin, std::int64_t length) {
        float acc = 0.0F;
        for (std::int64_t k0 = begin; k0 < begin + length; k0 += kQuantBlock) {
          float x[kQuantBlock];
          float largest = 0.0F;
          bool finite = true;
          for (std::int64_t i = 0; i < kQuantBlock; ++i) {
            x[i] = read(c.a, c.a_dtype, m * c.a_row_stride + (k0 + i) * c.a_k_stride);
            finite = finite && std::isfinite(x[i]);
            largest = std::fmax(largest, std::fabs(x[i]));
          }
          // A block with an infinity or a not-a-number has scale NaN and codes 0, so the result says so.
          const float d_a = finite ? largest / 127.0F : std::bit_cast<float>(0x7fc00000U);
          const auto* block = static_cast<const unsigned char*>(weight) +
                              static_cast<std::size_t>((row * k + k0) / kQuantBlock) * block_bytes;
          const float d_w = half_at(block);
          std::int32_t dot = 0;
          std::int32_t sum = 0;
          for (std::int64_t i = 0; i < kQuantBlock; ++i) {
            const std::int32_t q = finite && d_a > 0 ? static_cast<std::int32_t>(std::nearbyint(x[i] / d_a)) : 0;
            std::int32_t w = 0;
            if (dtype == DType::q8_0) {
              w = static_cast<signed char>(block[2 + i]);
            } else {
              const unsigned char byte = block[(dtype == DType::q4_1 ? 4 : 2) + i % 16];
              w = (i < 16 ? byte & 15 : byte >> 4) - (dtype == DType::q4_0 ? 8 : 0);
            }
            dot += q * w;
            sum += q;
          }
          acc = std::fma(static_cast<float>(dot), d_w * d_a, acc);
          if (dtype == DType::q4_1) {
            acc = std::fma(static_cast<float>(sum), half_at(block + 2) * d_a, acc);
          }
        }
        return acc + 0.0F;
      };
      write(c.c, c.c_dtype, m * c.c_row_stride + row * c.c_column_stride, axis_tree(0, k, leaf, add));
    }
  }
}

}  // namespace isotone::cpu
