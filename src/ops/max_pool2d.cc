// The largest element of each window of an image.
#include <limits>
#include "ops/support/window.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct MaxPool2d : GradientOfDecomposition, NeverCut {
  static constexpr std::string_view name = "max_pool2d";
  static Types infer(const InTypes& in, const Attrs& a) {
    require_four_axes(name, in, "[n, channel, height, width]");
    require_float(name, in[0]);
    const Window w(name, a, in[0].shape[2], in[0].shape[3]);
    return {{in[0].dtype, {in[0].shape[0], in[0].shape[1], w.out[0], w.out[1]}}};
  }
  static Values decompose(const Values& in, const Attrs& a) {
    const Shape& x = in[0].shape();
    const Window w(name, a, x[2], x[3]);
    const Value windows = unfold(in[0], a.ints("kernel"), a.ints("stride"), a.ints("padding"), a.ints("dilation"),
                                 -std::numeric_limits<double>::infinity());
    return {reshape(transpose(max(windows, {-1}), {0, 2, 1}), {x[0], x[1], w.out[0], w.out[1]})};
  }
  static std::vector<Sample> samples() {
    return {{{{{DType::f32, {2, 3, 6, 7}}}}, window_attrs({3, 2}, {2, 1}, {1, 0}, {1, 1})},
            {{{{DType::bf16, {1, 2, 8, 8}}}}, window_attrs({2, 2}, {2, 2}, {0, 0}, {1, 1}), false}};
  }
};

}  // namespace

/// The largest element of every window of x [n, channel, height, width], floats; the pairs are {vertical, horizontal}.
/// @api Value max_pool2d(const Value& x, Ints kernel, Ints stride, Ints padding = {0, 0}, Ints dilation = {1, 1});
Value max_pool2d(const Value& x, Ints kernel, Ints stride, Ints padding, Ints dilation) {
  return apply1("max_pool2d", {x},
                window_attrs(std::move(kernel), std::move(stride), std::move(padding), std::move(dilation)));
}

ISOTONE_OP(max_pool2d, MaxPool2d);

}  // namespace isotone::ops
