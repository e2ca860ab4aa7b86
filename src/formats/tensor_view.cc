// Shapes of tensors in files: products with overflow checks, and how they are printed.
#include "formats/tensor_view.h"

#include "base/error.h"

namespace isotone {

std::int64_t TensorSpec::elements() const {
  return checked_elements(shape, name);
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", shape[i]);
  }
  return text + "]";
}

std::int64_t checked_elements(std::span<const std::int64_t> shape, const std::string& what) {
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  // A zero anywhere makes the product zero, but the other dimensions must still multiply to something sane.
  std::int64_t product = 1;
  bool empty = false;
  for (const std::int64_t dim : shape) {
    if (dim < 0 || (dim > 0 && product > kMost / dim)) {
      fail("tensor '{}': the shape {} is negative or too large", what, shape_text(shape));
    }
    empty = empty || dim == 0;
    product *= dim == 0 ? 1 : dim;
  }
  return empty ? 0 : product;
}

}  // namespace isotone
