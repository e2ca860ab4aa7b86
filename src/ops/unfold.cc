// The windows of an image, laid out as rows (im2col).
#include "ops/support/window.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct Unfold : NeverCut {
  static constexpr std::string_view name = "unfold";
  static Types infer(const InTypes& in, const Attrs& a) {
    require_four_axes(name, in, "[n, channel, height, width]");
    require_float(name, in[0]);
    const Shape& s = in[0].shape;
    const Window w(name, a, s[2], s[3]);
    return {{in[0].dtype, {s[0], w.out[0] * w.out[1], s[1], w.kernel[0] * w.kernel[1]}}};
  }
  static Values vjp(const VjpCall& c) {
    const Shape& s = c.inputs[0].shape();
    return {fold(c.cotangents[0], s[2], s[3], c.attrs.ints("kernel"), c.attrs.ints("stride"), c.attrs.ints("padding"),
                 c.attrs.ints("dilation"))};
  }
  static void reference(const ReferenceCall& c) {
    const Shape& s = c.inputs[0].type->shape;
    const Window w(name, c.attrs, s[2], s[3]);
    const auto fill = static_cast<float>(c.attrs.real("fill"));
    std::int64_t at = 0;
    for (std::int64_t n = 0; n < s[0]; ++n) {
      for (std::int64_t o = 0; o < w.out[0] * w.out[1]; ++o) {
        for (std::int64_t ch = 0; ch < s[1]; ++ch) {
          for (std::int64_t k = 0; k < w.kernel[0] * w.kernel[1]; ++k) {
            const std::int64_t y = o / w.out[1] * w.stride[0] - w.padding[0] + k / w.kernel[1] * w.dilation[0];
            const std::int64_t x = o % w.out[1] * w.stride[1] - w.padding[1] + k % w.kernel[1] * w.dilation[1];
            const bool inside = y >= 0 && y < s[2] && x >= 0 && x < s[3];
            c.outputs[0].set(at++, inside ? c.inputs[0].get(((n * s[1] + ch) * s[2] + y) * s[3] + x) : fill);
          }
        }
      }
    }
  }
  static std::vector<Sample> samples() {
    std::vector<Sample> out;
    for (const DType t : {DType::f32, DType::bf16}) {
      Attrs a = window_attrs({3, 2}, {2, 1}, {1, 0}, {1, 2});
      a.set("fill", 0.0);
      out.push_back({{{{t, {2, 3, 6, 7}}}}, a, t == DType::f32});
    }
    return out;
  }
};

}  // namespace

/// The windows of x [n, channel, height, width] as [n, position, channel, kernel element]; outside the image stands
/// `fill`.
/// @api Value unfold(const Value& x, Ints kernel, Ints stride, Ints padding, Ints dilation, double fill = 0.0);
Value unfold(const Value& x, Ints kernel, Ints stride, Ints padding, Ints dilation, double fill) {
  Attrs a = window_attrs(std::move(kernel), std::move(stride), std::move(padding), std::move(dilation));
  a.set("fill", fill);
  return apply1("unfold", {x}, std::move(a));
}

ISOTONE_OP(unfold, Unfold);

}  // namespace isotone::ops
