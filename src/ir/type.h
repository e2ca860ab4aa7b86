// What a value is before anybody computes it: a dtype and a shape.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace isotone::ir {

/// Sizes of the dimensions, outermost first; empty for a scalar.
using Shape = std::vector<std::int64_t>;

struct Type {
  DType dtype = DType::f32;
  Shape shape;

  [[nodiscard]] std::int64_t elements() const {
    std::int64_t n = 1;
    for (const std::int64_t d : shape) {
      n *= d;
    }
    return n;
  }
  [[nodiscard]] std::size_t bytes() const { return storage_bytes(dtype, elements()); }
  [[nodiscard]] int rank() const { return static_cast<int>(shape.size()); }
  friend bool operator==(const Type&, const Type&) = default;
};

/// "[2, 3]"
std::string to_string(const Shape& shape);
/// "f32[2, 3]"
std::string to_string(const Type& type);

/// `axis` counted from the end where negative, checked against `rank`; `op` names the asker in the error.
int normal_axis(std::int64_t axis, int rank, std::string_view op);

/// The shape both broadcast to by numpy's rule; the error names `op` and both shapes.
Shape broadcast_shapes(const Shape& a, const Shape& b, std::string_view op);

/// Strides in elements of a contiguous tensor of this shape.
std::vector<std::int64_t> contiguous_strides(const Shape& shape);

}  // namespace isotone::ir
