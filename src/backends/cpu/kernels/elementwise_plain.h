// Spans of elementwise work in which nothing rounds but conversions from integers: the same code for every instruction
// set.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/elementwise.h"

namespace isotone::cpu {

using PlainCompare = void (*)(std::uint8_t* y, const void* a, const void* b, std::int64_t n);
using PlainCast = void (*)(void* y, const void* x, std::int64_t n);

PlainCompare plain_compare(CompareOp op, DType t);
/// Between dtypes of which at least one is not a float.
PlainCast plain_cast(DType to, DType from);
void plain_logical(LogicalOp op, std::uint8_t* y, const std::uint8_t* a, const std::uint8_t* b, std::int64_t n);
void plain_logical_not(std::uint8_t* y, const std::uint8_t* x, std::int64_t n);
/// `bytes` an element: 1, 2, 4 or 8.
void plain_where(std::size_t bytes, void* y, const std::uint8_t* condition, const void* a, const void* b,
                 std::int64_t n);

}  // namespace isotone::cpu
