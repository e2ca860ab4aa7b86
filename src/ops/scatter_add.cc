// Adds elements at indexed positions along an axis.
#include "base/tree.h"
#include "ops/support/attributes.h"
#include "ops/support/index.h"
#include "ops/support/shard.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct ScatterAdd : AlongAxis {
  static constexpr std::string_view name = "scatter_add";
  static Types infer(const InTypes& in, const Attrs& a) {
    require(in.size() == 3, "scatter_add: takes a tensor, indices and updates, got {} inputs", in.size());
    require_index(name, in[1]);
    require_float(name, in[0]);
    require(in[2].dtype == in[0].dtype, "scatter_add: updates are {}, the tensor is {}", ir::to_string(in[2]),
            ir::to_string(in[0]));
    const std::size_t axis = axis_attr(name, a, in[0].rank());
    Shape expected = in[0].shape;
    require(in[1].rank() == in[0].rank() && in[1].shape == in[2].shape,
            "scatter_add: indices {} and updates {} must have one shape of rank {}", ir::to_string(in[1]),
            ir::to_string(in[2]), in[0].rank());
    expected[axis] = in[1].shape[axis];
    require(in[1].shape == expected, "scatter_add: {} and {} may differ along axis {} only", ir::to_string(in[0]),
            ir::to_string(in[1]), axis);
    return {in[0]};
  }
  static Values vjp(const VjpCall& c) {
    return {c.cotangents[0], Value(), gather(c.cotangents[0], c.inputs[1], c.attrs.integer("axis"))};
  }
  static void reference(const ReferenceCall& c) {
    const AxisSplit x(c.inputs[0].type->shape, c.attrs.integer("axis"));
    const AxisSplit u(c.inputs[1].type->shape, c.attrs.integer("axis"));
    for (std::int64_t i = 0; i < c.inputs[1].elements(); ++i) {
      checked_index(name, c.inputs[1].get_int(i), x.n);
    }
    for (std::int64_t i = 0; i < c.outputs[0].elements(); ++i) {
      const std::int64_t outer = i / x.inner / x.n, at = i / x.inner % x.n, inner = i % x.inner;
      const auto leaf = [&](std::int64_t begin, std::int64_t n) {
        float sum = 0.0F;
        for (std::int64_t j = begin; j < begin + n; ++j) {
          const std::int64_t k = (outer * u.n + j) * u.inner + inner;
          sum += c.inputs[1].get_int(k) == at ? c.inputs[2].get(k) : 0.0F;
        }
        return sum + 0.0F;
      };
      c.outputs[0].set(i, c.inputs[0].get(i) + axis_tree(0, u.n, leaf, [](float l, float r) { return l + r; }));
    }
  }
  static std::vector<Sample> samples() {
    return {
        {{{{DType::f32, {3, 4}}}, {{DType::i32, {3, 9}}, 0, 4}, {{DType::f32, {3, 9}}}}, {{"axis", std::int64_t{1}}}},
        {{{{DType::f32, {5, 2}}}, {{DType::i32, {600, 2}}, 0, 5}, {{DType::f32, {600, 2}}}},
         {{"axis", std::int64_t{0}}},
         false},
        {{{{DType::f32, {2, 5}}}, {{DType::i32, {2, 600}}, 0, 5}, {{DType::f32, {2, 600}}}},
         {{"axis", std::int64_t{1}}},
         false},
        {{{{DType::bf16, {5, 2}}}, {{DType::i64, {70, 2}}, 0, 5}, {{DType::bf16, {70, 2}}}},
         {{"axis", std::int64_t{0}}},
         false}};
  }
};

}  // namespace

/// x plus, at every position, the updates whose index (i32 or i64) names it along `axis`: summed by the axis tree over
/// the updates' axis, in f32, then added to x and rounded once.
/// @api Value scatter_add(const Value& x, const Value& indices, const Value& updates, std::int64_t axis);
Value scatter_add(const Value& x, const Value& indices, const Value& updates, std::int64_t axis) {
  return apply1("scatter_add", {x, indices, updates},
                {{"axis", std::int64_t{ir::normal_axis(axis, x.rank(), "scatter_add")}}});
}

ISOTONE_OP(scatter_add, ScatterAdd);

}  // namespace isotone::ops
