// Sum over axes, in canonical order.
#include "ops/support/reduction.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct Sum {
  static constexpr std::string_view name = "sum";
  static Types infer(const InTypes& in, const Attrs& a) { return infer_reduction(name, in, a); }
  static Values vjp(const VjpCall& c) { return {spread(c.cotangents[0], c.inputs[0], c.attrs, name)}; }
  static void reference(const ReferenceCall& c) {
    const Shape& shape = c.inputs[0].type->shape;
    const Ints axes = normal_axes(c.attrs.ints("axes"), static_cast<int>(shape.size()), name);
    const auto strides = ir::contiguous_strides(shape);
    for_each_output(shape, axes, [&](std::int64_t o, std::int64_t offset) {
      c.outputs[0].set(o, level(c.inputs[0], shape, strides, axes, 0, offset));
    });
  }
  static ShardRule shard(const InTypes& in, const Types&, const Attrs& a) { return reduction_rule(name, in, a, true); }
  static std::vector<Sample> samples() { return reduction_samples(); }

 private:
  /// The last declared axis is an axis tree of plain leaves, those before it element trees.
  static float level(const HostTensor& x, const Shape& shape, const std::vector<std::int64_t>& strides,
                     const Ints& axes, std::size_t depth, std::int64_t offset) {
    if (depth == axes.size()) {
      return x.get(offset);
    }
    const auto axis = static_cast<std::size_t>(axes[depth]);
    const std::int64_t n = shape[axis];
    if (depth + 1 == axes.size()) {
      return plain_sum(n, [&](std::int64_t i) { return x.get(offset + i * strides[axis]); });
    }
    if (n == 0) {
      return 0.0F;
    }
    return element_tree(
        0, n, [&](std::int64_t i) { return level(x, shape, strides, axes, depth + 1, offset + i * strides[axis]); },
        [](float l, float r) { return l + r; });
  }
};

}  // namespace

/// Sum over `axes` (all where empty): the last named one by the axis tree, the ones before it by element trees around
/// it. Computed in f32, rounded once to x's dtype.
/// @api Value sum(const Value& x, Ints axes = {}, bool keep_dims = false);
Value sum(const Value& x, Ints axes, bool keep_dims) {
  return apply1("sum", {x}, reduction_attrs(normal_axes(axes, x.rank(), "sum"), keep_dims));
}

/// The sum of x over the axes along which `shape` was broadcast to x's shape: the gradient of broadcasting.
/// @api Value sum_to(const Value& x, const Shape& shape);
Value sum_to(const Value& x, const Shape& shape) {
  if (x.shape() == shape) {
    return x;
  }
  Ints axes;
  const std::size_t extra = x.shape().size() - shape.size();
  for (std::size_t i = 0; i < x.shape().size(); ++i) {
    if (i < extra || (shape[i - extra] == 1 && x.shape()[i] != 1)) {
      axes.push_back(static_cast<std::int64_t>(i));
    }
  }
  return reshape(axes.empty() ? x : sum(x, axes), shape);
}

ISOTONE_OP(sum, Sum);

}  // namespace isotone::ops
