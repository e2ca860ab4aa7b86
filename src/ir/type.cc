#include "ir/type.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"

namespace isotone::ir {

std::string to_string(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::string to_string(const Type& type) {
  return fmt::format("{}{}", dtype_name(type.dtype), to_string(type.shape));
}

int normal_axis(std::int64_t axis, int rank, std::string_view op) {
  const std::int64_t a = axis < 0 ? axis + rank : axis;
  require(a >= 0 && a < rank, "{}: axis {} is outside a tensor of rank {}; use {} to {}", op, axis, rank, -rank,
          rank - 1);
  return static_cast<int>(a);
}

Shape broadcast_shapes(const Shape& a, const Shape& b, std::string_view op) {
  Shape out(std::max(a.size(), b.size()), 1);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t x = i + a.size() >= out.size() ? a[i + a.size() - out.size()] : 1;
    const std::int64_t y = i + b.size() >= out.size() ? b[i + b.size() - out.size()] : 1;
    require(x == y || x == 1 || y == 1,
            "{}: shapes {} and {} do not broadcast: dimension {} is {} on the left and {} on the right (they must be "
            "equal, or one of them 1)",
            op, to_string(a), to_string(b), i, x, y);
    out[i] = x == 1 ? y : x;
  }
  return out;
}

std::vector<std::int64_t> contiguous_strides(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t s = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = s;
    s *= shape[i];
  }
  return strides;
}

}  // namespace isotone::ir
