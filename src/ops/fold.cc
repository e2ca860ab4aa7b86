// The reverse of unfold: windows added into an image (col2im).
#include "ops/support/attributes.h"
#include "ops/support/window.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct Fold : NeverCut {
  static constexpr std::string_view name = "fold";
  static Types infer(const InTypes& in, const Attrs& a) {
    require_four_axes(name, in, "[n, position, channel, kernel element]");
    require_float(name, in[0]);
    const Ints& size = Window::pair(name, a, "size");
    require_sizes(name, size);
    const Window w(name, a, size[0], size[1]);
    require(in[0].shape[1] == w.out[0] * w.out[1] && in[0].shape[3] == w.kernel[0] * w.kernel[1],
            "fold: {} does not come from such windows", ir::to_string(in[0]));
    return {{in[0].dtype, {in[0].shape[0], in[0].shape[2], size[0], size[1]}}};
  }
  static Values vjp(const VjpCall& c) {
    return {unfold(c.cotangents[0], c.attrs.ints("kernel"), c.attrs.ints("stride"), c.attrs.ints("padding"),
                   c.attrs.ints("dilation"))};
  }
  static void reference(const ReferenceCall& c) {
    const Shape& s = c.outputs[0].type->shape;
    const Window w(name, c.attrs, s[2], s[3]);
    const std::int64_t positions = w.out[0] * w.out[1], elements = w.kernel[0] * w.kernel[1];
    for (std::int64_t i = 0; i < c.outputs[0].elements(); ++i) {
      const std::int64_t x = i % s[3], y = i / s[3] % s[2], ch = i / s[3] / s[2] % s[1], n = i / s[3] / s[2] / s[1];
      float sum = 0.0F;
      for (std::int64_t k = 0; k < elements; ++k) {  // one chain, ascending kernel element
        const std::int64_t dy = y + w.padding[0] - k / w.kernel[1] * w.dilation[0];
        const std::int64_t dx = x + w.padding[1] - k % w.kernel[1] * w.dilation[1];
        if (dy < 0 || dx < 0 || dy % w.stride[0] != 0 || dx % w.stride[1] != 0 || dy / w.stride[0] >= w.out[0] ||
            dx / w.stride[1] >= w.out[1]) {
          continue;
        }
        const std::int64_t o = dy / w.stride[0] * w.out[1] + dx / w.stride[1];
        sum += c.inputs[0].get(((n * positions + o) * s[1] + ch) * elements + k);
      }
      c.outputs[0].set(i, sum);
    }
  }
  static std::vector<Sample> samples() {
    Attrs a = window_attrs({3, 2}, {2, 1}, {1, 0}, {1, 2});
    a.set("size", Ints{6, 7});
    return {{{{{DType::f32, {2, 15, 3, 6}}}}, a}};
  }
};

}  // namespace

/// An image [n, channel, height, width] in which every window element [n, position, channel, kernel element] is added
/// where unfold() would read it: one chain in f32 in ascending kernel element, rounded once.
/// @api Value fold(const Value& x, std::int64_t height, std::int64_t width, Ints kernel, Ints stride, Ints padding,
/// Ints dilation);
Value fold(const Value& x, std::int64_t height, std::int64_t width, Ints kernel, Ints stride, Ints padding,
           Ints dilation) {
  Attrs a = window_attrs(std::move(kernel), std::move(stride), std::move(padding), std::move(dilation));
  a.set("size", Ints{height, width});
  return apply1("fold", {x}, std::move(a));
}

ISOTONE_OP(fold, Fold);

}  // namespace isotone::ops
