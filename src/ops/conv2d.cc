// Two-dimensional convolution (cross-correlation) of images.
#include "ops/support/window.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct Conv2d : GradientOfDecomposition, NeverCut {
  static constexpr std::string_view name = "conv2d";
  static Types infer(const InTypes& in, const Attrs& a) {
    require(in.size() == 2, "conv2d: takes x and w, got {} inputs", in.size());
    require(in[0].rank() == 4 && in[1].rank() == 4,
            "conv2d: takes x [n, channel, height, width] and w [out, channel / groups, kh, kw], got {} and {}",
            ir::to_string(in[0]), ir::to_string(in[1]));
    require_same_dtype(name, in, 0, 1);
    require_float(name, in[0]);
    const std::int64_t groups = a.integer("groups");
    require(groups >= 1 && in[0].shape[1] % groups == 0 && in[1].shape[0] % groups == 0 &&
                in[1].shape[1] == in[0].shape[1] / groups,
            "conv2d: w {} does not fit x {} in {} groups", ir::to_string(in[1]), ir::to_string(in[0]), groups);
    const Window w(name, with_kernel(a, in[1].shape), in[0].shape[2], in[0].shape[3]);
    return {{in[0].dtype, {in[0].shape[0], in[1].shape[0], w.out[0], w.out[1]}}};
  }
  static Values decompose(const Values& in, const Attrs& a) {
    const Shape &x = in[0].shape(), &k = in[1].shape();
    const std::int64_t groups = a.integer("groups");
    const Window w(name, with_kernel(a, k), x[2], x[3]);
    const Value windows = reshape(unfold(in[0], {k[2], k[3]}, a.ints("stride"), a.ints("padding"), a.ints("dilation")),
                                  {x[0], w.out[0] * w.out[1], groups, k[1] * k[2] * k[3]});
    const Value weight = reshape(in[1], {groups, k[0] / groups, k[1] * k[2] * k[3]});
    return {
        reshape(contract(windows, weight, "npgi,goi->ngop", in[0].dtype(), true), {x[0], k[0], w.out[0], w.out[1]})};
  }
  static std::vector<Sample> samples() {
    std::vector<Sample> out;
    for (const DType t : {DType::f32, DType::bf16}) {
      out.push_back(
          {{{{t, {2, 4, 6, 7}}}, {{t, {6, 2, 3, 2}}}},
           {{"stride", Ints{2, 1}}, {"padding", Ints{1, 0}}, {"dilation", Ints{1, 2}}, {"groups", std::int64_t{2}}},
           t == DType::f32});
    }
    return out;
  }

 private:
  static Attrs with_kernel(Attrs a, const Shape& w) {
    a.set("kernel", Ints{w[2], w[3]});
    return a;
  }
};

}  // namespace

/// x [n, channel, height, width] with w [out, channel / groups, kh, kw]: [n, out, height', width'] in their dtype. The
/// pairs are {vertical, horizontal}. The weight's gradient is f32.
/// @api Value conv2d(const Value& x, const Value& w, Ints stride = {1, 1}, Ints padding = {0, 0}, Ints dilation = {1,
/// 1}, std::int64_t groups = 1);
Value conv2d(const Value& x, const Value& w, Ints stride, Ints padding, Ints dilation, std::int64_t groups) {
  return apply1("conv2d", {x, w},
                {{"stride", std::move(stride)},
                 {"padding", std::move(padding)},
                 {"dilation", std::move(dilation)},
                 {"groups", groups}});
}

ISOTONE_OP(conv2d, Conv2d);

}  // namespace isotone::ops
