// What each instruction set's file gives reduce.cc: results in f32, for inputs of f32, bf16, f16.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/reduce.h"
#include "backends/cpu/kernels/vec_dispatch.h"

namespace isotone::cpu {

struct ReduceTable {
  /// y[row] for rows of n contiguous elements.
  using Rows = void (*)(float* y, const void* x, std::int64_t rows, std::int64_t n);
  /// y[column] for columns of n elements `stride` apart.
  using Columns = void (*)(float* y, const void* x, std::int64_t columns, std::int64_t n, std::int64_t stride);
  Rows rows[kReduceOps][3];
  Columns columns[kReduceOps][3];
};

ISOTONE_CPU_TABLE(ReduceTable, reduce)

}  // namespace isotone::cpu
