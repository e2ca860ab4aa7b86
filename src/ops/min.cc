// The smallest element over axes.
#include "ops/support/reduction.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct Min {
  static constexpr std::string_view name = "min";
  static Types infer(const InTypes& in, const Attrs& a) { return infer_reduction(name, in, a); }
  static Values vjp(const VjpCall& c) {
    // Equal smallest elements share the gradient.
    const Value& x = c.inputs[0];
    const Value hit = cast(equal(x, spread(c.outputs[0], x, c.attrs, name)), x.dtype());
    const Value count = spread(sum(hit, c.attrs.ints("axes")), x, c.attrs, name);
    return {mul(spread(c.cotangents[0], x, c.attrs, name), div(hit, count))};
  }
  static void reference(const ReferenceCall& c) {
    const Shape& shape = c.inputs[0].type->shape;
    const Ints axes = normal_axes(c.attrs.ints("axes"), static_cast<int>(shape.size()), name);
    const auto strides = ir::contiguous_strides(shape);
    for_each_output(shape, axes, [&](std::int64_t o, std::int64_t offset) {
      float best = std::numeric_limits<float>::infinity();
      bool nan = false;
      Shape inner;
      for (const std::int64_t a : axes) {
        inner.push_back(shape[static_cast<std::size_t>(a)]);
      }
      const std::int64_t n = Type{DType::f32, inner}.elements();
      for (std::int64_t i = 0; i < n; ++i) {
        std::int64_t rest = i, at = offset;
        for (std::size_t d = inner.size(); d-- > 0;) {
          at += rest % inner[d] * strides[static_cast<std::size_t>(axes[d])];
          rest /= inner[d];
        }
        const float v = c.inputs[0].get(at);
        nan = nan || v != v;
        best = v < best ? v : best;
      }
      c.outputs[0].set(o, nan ? std::numeric_limits<float>::quiet_NaN() : best + 0.0F);  // a zero is +0
    });
  }
  static ShardRule shard(const InTypes& in, const Types&, const Attrs& a) {
    ShardRule rule = reduction_rule(name, in, a, true);
    rule.join = Join::minimum;
    return rule;
  }
  static std::vector<Sample> samples() { return reduction_samples(); }
};

}  // namespace

/// The smallest element over `axes` (all where empty), NaN where there is one; +infinity over nothing. Float dtypes.
/// @api Value min(const Value& x, Ints axes = {}, bool keep_dims = false);
Value min(const Value& x, Ints axes, bool keep_dims) {
  return apply1("min", {x}, reduction_attrs(normal_axes(axes, x.rank(), "min"), keep_dims));
}

ISOTONE_OP(min, Min);

}  // namespace isotone::ops
