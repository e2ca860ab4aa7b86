// Attributes read and checked in one: they may come from a printed graph, so any number can stand where a dtype, an
// axis or a size is meant.
#pragma once

#include "base/error.h"
#include "ops/op.h"

namespace isotone::ops {

/// What widths and steps stay below, so that no product of two of them overflows.
inline constexpr std::int64_t kFar = std::int64_t{1} << 30;

/// The attribute "dtype" of `op`.
inline DType dtype_attr(std::string_view op, const Attrs& a) {
  const std::int64_t t = a.integer("dtype");
  require(t >= 0 && t < kDTypeCount, "{}: dtype {} is none of the {} dtypes", op, t, kDTypeCount);
  return static_cast<DType>(t);
}

/// Likewise, of an operation whose results are floats.
inline DType float_dtype_attr(std::string_view op, const Attrs& a) {
  const DType t = dtype_attr(op, a);
  require(is_float(t), "{}: the result must be f32, bf16 or f16, not {}", op, dtype_name(t));
  return t;
}

/// Likewise, of an operation that makes elements one by one, as no quantised block can be made.
inline DType plain_dtype_attr(std::string_view op, const Attrs& a) {
  const DType t = dtype_attr(op, a);
  require(!is_quantised(t), "{}: cannot make {}; quantised weights are made by `isotone convert`", op, dtype_name(t));
  return t;
}

/// Throws where a size is negative or all of them together are more than memory can be.
inline void require_sizes(std::string_view op, const Shape& shape) {
  constexpr std::int64_t kMost = std::int64_t{1} << 48;
  std::int64_t left = kMost;
  for (const std::int64_t d : shape) {
    require(d >= 0, "{}: shape {} has a negative size", op, ir::to_string(shape));
    require(d <= left, "{}: shape {} has more than {} elements", op, ir::to_string(shape), kMost);
    left /= d == 0 ? 1 : d;
  }
}

/// The attribute "shape" of `op`.
inline const Shape& shape_attr(std::string_view op, const Attrs& a) {
  const Shape& shape = a.ints("shape");
  require_sizes(op, shape);
  return shape;
}

/// The attribute "axis" of `op`, which counts from the front: the functions that users call have made it so.
inline std::size_t axis_attr(std::string_view op, const Attrs& a, int rank) {
  const std::int64_t axis = a.integer("axis");
  require(axis >= 0 && axis < rank, "{}: axis {} is outside [0, {}), the axes of the tensor", op, axis, rank);
  return static_cast<std::size_t>(axis);
}

}  // namespace isotone::ops
