// Picks elements along an axis by an index tensor of the same rank.
#include "ops/support/attributes.h"
#include "ops/support/index.h"
#include "ops/support/shard.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct Gather : AlongAxis {
  static constexpr std::string_view name = "gather";
  static Types infer(const InTypes& in, const Attrs& a) {
    require(in.size() == 2, "gather: takes a tensor and indices, got {} inputs", in.size());
    require_index(name, in[1]);
    const std::size_t axis = axis_attr(name, a, in[0].rank());
    Shape expected = in[0].shape;
    require(in[1].rank() == in[0].rank() && !is_quantised(in[0].dtype), "gather: {} and {} must have one rank",
            ir::to_string(in[0]), ir::to_string(in[1]));
    expected[axis] = in[1].shape[axis];
    require(in[1].shape == expected, "gather: {} and {} may differ along axis {} only", ir::to_string(in[0]),
            ir::to_string(in[1]), axis);
    return {{in[0].dtype, in[1].shape}};
  }
  static Values vjp(const VjpCall& c) {
    const Value zero = broadcast_to(full({}, 0.0, c.cotangents[0].dtype()), c.inputs[0].shape());
    return {scatter_add(zero, c.inputs[1], c.cotangents[0], c.attrs.integer("axis")), Value()};
  }
  static void reference(const ReferenceCall& c) {
    const AxisSplit x(c.inputs[0].type->shape, c.attrs.integer("axis"));
    const AxisSplit y(c.outputs[0].type->shape, c.attrs.integer("axis"));
    for (std::int64_t i = 0; i < c.outputs[0].elements(); ++i) {
      const std::int64_t at = checked_index(name, c.inputs[1].get_int(i), x.n);
      copy_element(c.outputs[0], i, c.inputs[0], (i / y.inner / y.n * x.n + at) * x.inner + i % y.inner);
    }
  }
  static std::vector<Sample> samples() {
    return {{{{{DType::f32, {3, 7}}}, {{DType::i32, {3, 4}}, 0, 7}}, {{"axis", std::int64_t{1}}}},
            {{{{DType::bf16, {5, 2, 3}}}, {{DType::i64, {8, 2, 3}}, 0, 5}}, {{"axis", std::int64_t{0}}}, false}};
  }
};

}  // namespace

/// y[.., i, ..] = x[.., indices[.., i, ..], ..] along `axis`; x and indices (i32 or i64) agree on the other axes.
/// @api Value gather(const Value& x, const Value& indices, std::int64_t axis);
Value gather(const Value& x, const Value& indices, std::int64_t axis) {
  return apply1("gather", {x, indices}, {{"axis", std::int64_t{ir::normal_axis(axis, x.rank(), "gather")}}});
}

ISOTONE_OP(gather, Gather);

}  // namespace isotone::ops
