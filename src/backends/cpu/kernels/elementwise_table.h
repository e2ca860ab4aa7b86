// What each instruction set's file gives elementwise.cc: spans of contiguous elements, for f32, bf16, f16.
#pragma once

#include <cstdint>
#include <span>

#include "backends/cpu/kernels/elementwise.h"
#include "backends/cpu/kernels/vec_dispatch.h"

namespace isotone::cpu {

struct ElementwiseTable {
  using Unary = void (*)(void* y, const void* x, std::int64_t n);
  using Binary = void (*)(void* y, const void* a, const void* b, std::int64_t n);
  using Clamp = void (*)(void* y, const void* x, float low, float high, std::int64_t n);
  using FanIn = void (*)(void* y, const void* const* inputs, std::int64_t count, std::int64_t from, std::int64_t n);
  Unary unary[kUnaryOps][3];
  Binary binary[kBinaryOps][3];
  Clamp clamp[3];
  FanIn fan_in[3];
  Unary cast[3][3];  // [from][to]
};

ISOTONE_CPU_TABLE(ElementwiseTable, elementwise)

}  // namespace isotone::cpu
