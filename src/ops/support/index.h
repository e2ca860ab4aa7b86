// What indexing operations share: checked integer indices and the split of a shape around an axis.
#pragma once

#include "base/error.h"
#include "ops/functions.h"

namespace isotone::ops {

/// A shape seen as [outer, n, inner] around one axis.
struct AxisSplit {
  std::int64_t outer = 1, n = 1, inner = 1;
  AxisSplit(const Shape& shape, std::int64_t axis) {
    for (std::size_t i = 0; i < shape.size(); ++i) {
      const auto a = static_cast<std::size_t>(axis);
      (i < a ? outer : i == a ? n : inner) *= shape[i];
    }
  }
};

inline void require_index(std::string_view op, const Type& type) {
  require(type.dtype == DType::i32 || type.dtype == DType::i64, "{}: indices must be i32 or i64, got {}", op,
          ir::to_string(type));
}

/// An index in [0, n), or an error that names it.
inline std::int64_t checked_index(std::string_view op, std::int64_t i, std::int64_t n) {
  require(i >= 0 && i < n, "{}: index {} is outside [0, {})", op, i, n);
  return i;
}

/// Copies one element between tensors of one dtype.
inline void copy_element(const HostTensor& to, std::int64_t i, const HostTensor& from, std::int64_t j) {
  const std::size_t unit = unit_bytes(to.type->dtype);
  std::memcpy(static_cast<std::byte*>(to.data) + static_cast<std::size_t>(i) * unit,
              static_cast<const std::byte*>(from.data) + static_cast<std::size_t>(j) * unit, unit);
}

}  // namespace isotone::ops
