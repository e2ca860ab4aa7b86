// What each instruction set's file gives elementwise_fused.cc.
#pragma once

#include "backends/cpu/kernels/elementwise_fused.h"
#include "backends/cpu/kernels/vec_dispatch.h"

namespace isotone::cpu {

struct FusedTable {
  using Rope = void (*)(void* y, const void* x, const float* cos, const float* sin, std::int64_t heads, std::int64_t d,
                        bool negate_sin);
  using Swiglu = void (*)(void* y, const void* gate, const void* up, std::int64_t n);
  using SwigluGrad = void (*)(void* dgate, void* dup, const void* gate, const void* up, const void* dy, std::int64_t n);
  Rope rope[3];
  Swiglu swiglu[3];
  SwigluGrad swiglu_grad[3];
  void (*adamw)(float* p, float* m, float* v, const float* g, const AdamwStep& step, std::int64_t n, bf16* copy);
};

ISOTONE_CPU_TABLE(FusedTable, elementwise_fused)

}  // namespace isotone::cpu
