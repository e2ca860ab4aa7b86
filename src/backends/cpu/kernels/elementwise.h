// Elementwise functions over tensors of any strides: the result is contiguous, inputs are given by element strides with
// 0 where they are broadcast. Values and roundings: docs/numerics.md, sections 1 and 12.
#pragma once

#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace isotone::cpu {

inline constexpr std::size_t kMaxDims = 8;

/// An input: its memory and its distance in elements along each dimension of the result (empty: contiguous).
struct StridedInput {
  const void* data;
  std::span<const std::int64_t> strides = {};
};

enum class UnaryOp { neg, abs, exp, log, sin, cos, tanh, erf, sigmoid, silu, gelu_erf, gelu_tanh, relu, sqrt, rsqrt };
inline constexpr int kUnaryOps = 15;
/// max and min give NaN where either side is, and the left side where both are equal.
enum class BinaryOp { add, sub, mul, div, pow, max, min };
inline constexpr int kBinaryOps = 7;
enum class CompareOp { equal, less, less_equal };
enum class LogicalOp { logical_and, logical_or };

/// y = op(x) for f32, bf16, f16. y may be x where x is contiguous.
void unary(UnaryOp op, DType t, void* y, StridedInput x, std::span<const std::int64_t> shape);
/// y = op(a, b) for f32, bf16, f16.
void binary(BinaryOp op, DType t, void* y, StridedInput a, StridedInput b, std::span<const std::int64_t> shape);
/// min(max(x, low), high).
void clamp(DType t, void* y, StridedInput x, float low, float high, std::span<const std::int64_t> shape);
/// One byte (0 or 1) an element, for every dtype that is not quantised; with NaN all three are false.
void compare(CompareOp op, DType t, std::uint8_t* y, StridedInput a, StridedInput b,
             std::span<const std::int64_t> shape);
/// Bytes of booleans.
void logical(LogicalOp op, std::uint8_t* y, StridedInput a, StridedInput b, std::span<const std::int64_t> shape);
void logical_not(std::uint8_t* y, StridedInput x, std::span<const std::int64_t> shape);
/// Copies bits from a where the condition's byte is not 0, else from b; any dtype that is not quantised.
void where(DType t, void* y, StridedInput condition, StridedInput a, StridedInput b,
           std::span<const std::int64_t> shape);
/// Converts between dtypes that are not quantised: floats round to nearest even through f32; floats to integers
/// truncate and saturate, NaN gives 0; integers wrap; to bool: not zero.
void cast(DType to, void* y, DType from, StridedInput x, std::span<const std::int64_t> shape);
/// Makes a strided or broadcast tensor contiguous.
void copy(DType t, void* y, StridedInput x, std::span<const std::int64_t> shape);
/// ((x0 + x1) + x2) + ... in f32, rounded once; n contiguous elements. y may be one of them.
void fan_in(DType t, void* y, std::span<const void* const> inputs, std::int64_t n);

}  // namespace isotone::cpu
