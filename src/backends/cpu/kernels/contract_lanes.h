// The contraction for one value per batch item, with lanes over the batch: gradients of norm weights. Over the same
// vector types as contract_tile.h, and in an unnamed namespace for the same reason.
// NOLINTBEGIN(google-build-namespaces)
#pragma once

#include "backends/cpu/kernels/contract_tile.h"

namespace isotone::cpu {
namespace {

/// Lanes over the batch, for contractions that give one value per batch item (gradients of norm weights).
template <class V, Kind kKind>
void run_lanes(const LaneArgs& t) {
  using F = typename V::F;
  constexpr int kAcross = 4;
  constexpr int kColumns = kAcross * V::W;
  constexpr int kBytes = kKind == Kind::f32 ? 4 : 2;
  alignas(64) float stack[kMaxTreeDepth][kColumns];
  alignas(64) char tail[2][kColumns * 4];
  for (std::int64_t column = 0; column < t.count; column += kColumns) {
    const std::int64_t count = t.count - column < kColumns ? t.count - column : kColumns;
    std::int64_t top = 0;
    for (std::int64_t s = 0; s < t.step_count; ++s) {
      const LeafStep& step = t.steps[s];
      const char* a0 = static_cast<const char*>(t.a) + (step.outer * t.a_outer + step.begin * t.a_k + column) * kBytes;
      const char* b0 = static_cast<const char*>(t.b) + (step.outer * t.b_outer + step.begin * t.b_k + column) * kBytes;
      F acc[kAcross];
#pragma GCC unroll 4
      for (int v = 0; v < kAcross; ++v) {
        acc[v] = V::zero();
      }
      F even[kAcross] = {};  // chains of a block under amx-1
      F odd[kAcross] = {};
      const std::int64_t last = kKind == Kind::bf16 ? (step.length + 1) / 2 * 2 : step.length;
      for (std::int64_t i = 0; i < last; ++i) {
        const std::int64_t k = kKind == Kind::bf16 ? (i ^ 1) : i;  // pairs: odd first
        if (k >= step.length) {                                    // the missing odd element is +0
#pragma GCC unroll 4
          for (int v = 0; v < kAcross; ++v) {
            acc[v] = V::fma(V::zero(), V::zero(), acc[v]);
          }
          continue;
        }
        if constexpr (kKind == Kind::blocks) {
          if (i % 32 == 0) {
#pragma GCC unroll 4
            for (int v = 0; v < kAcross; ++v) {
              even[v] = V::zero();
              odd[v] = V::zero();
            }
          }
        }
        const char* a = a0 + k * t.a_k * kBytes;
        const char* b = b0 + k * t.b_k * kBytes;
        if (count < kColumns) {
          __builtin_memset(tail, 0, sizeof tail);
          __builtin_memcpy(tail[0], a, static_cast<std::size_t>(count * kBytes));
          __builtin_memcpy(tail[1], b, static_cast<std::size_t>(count * kBytes));
          a = tail[0];
          b = tail[1];
        }
#pragma GCC unroll 4
        for (int v = 0; v < kAcross; ++v) {
          if constexpr (kKind == Kind::f32) {
            acc[v] = V::fma(V::load(reinterpret_cast<const float*>(a) + v * V::W),
                            V::load(reinterpret_cast<const float*>(b) + v * V::W), acc[v]);
          } else if constexpr (kKind == Kind::bf16) {
            acc[v] = V::fma(V::load_bf16(reinterpret_cast<const std::uint16_t*>(a) + v * V::W),
                            V::load_bf16(reinterpret_cast<const std::uint16_t*>(b) + v * V::W), acc[v]);
          } else if constexpr (kKind == Kind::blocks) {
            const F av = V::load_bf16(reinterpret_cast<const std::uint16_t*>(a) + v * V::W);
            const F bv = V::load_bf16(reinterpret_cast<const std::uint16_t*>(b) + v * V::W);
            if (i % 2 == 0) {
              even[v] = V::fma(av, bv, even[v]);
            } else {
              odd[v] = V::fma(av, bv, odd[v]);
            }
            if (i % 32 == 31 || i + 1 == last) {
              acc[v] = V::add(acc[v], V::add(even[v], odd[v]));
            }
          } else {
            acc[v] = V::fma(V::load_f16(reinterpret_cast<const std::uint16_t*>(a) + v * V::W),
                            V::load_f16(reinterpret_cast<const std::uint16_t*>(b) + v * V::W), acc[v]);
          }
        }
      }
#pragma GCC unroll 4
      for (int v = 0; v < kAcross; ++v) {
        acc[v] = V::add(acc[v], V::zero());
      }
      for (std::int64_t i = 0; i < step.merges; ++i) {
        --top;
#pragma GCC unroll 4
        for (int v = 0; v < kAcross; ++v) {
          acc[v] = V::add(V::load(&stack[top][v * V::W]), acc[v]);
        }
      }
#pragma GCC unroll 4
      for (int v = 0; v < kAcross; ++v) {
        V::store(&stack[top][v * V::W], acc[v]);
      }
      ++top;
    }
    char* c = static_cast<char*>(t.c);
    switch (t.c_format) {
      case CFormat::f32:
        write_row<V, CFormat::f32>(stack[0], c + column * 4, 1, count);
        break;
      case CFormat::bf16:
        write_row<V, CFormat::bf16>(stack[0], c + column * 2, 1, count);
        break;
      case CFormat::f16:
        write_row<V, CFormat::f16>(stack[0], c + column * 2, 1, count);
        break;
    }
  }
}

}  // namespace
}  // namespace isotone::cpu
// NOLINTEND(google-build-namespaces)
