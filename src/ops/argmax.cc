// The position of the largest element along an axis.
#include "ops/support/attributes.h"
#include "ops/support/reduction.h"
#include "ops/support/shard.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct Argmax : NoGradient<Argmax> {
  static constexpr std::string_view name = "argmax";
  static Types infer(const InTypes& in, const Attrs& a) {
    require(in.size() == 1, "argmax: takes one tensor, got {}", in.size());
    require_float(name, in[0]);
    const Ints axes{static_cast<std::int64_t>(axis_attr(name, a, in[0].rank()))};
    require(in[0].shape[static_cast<std::size_t>(axes[0])] > 0, "argmax: {} is empty along axis {}",
            ir::to_string(in[0]), axes[0]);
    return {{DType::i32, reduced_shape(in[0].shape, axes, false)}};
  }
  static void reference(const ReferenceCall& c) {
    const Shape& shape = c.inputs[0].type->shape;
    const auto axis = static_cast<std::size_t>(c.attrs.integer("axis"));
    const std::int64_t stride = ir::contiguous_strides(shape)[axis];
    for_each_output(shape, {c.attrs.integer("axis")}, [&](std::int64_t o, std::int64_t offset) {
      std::int64_t at = 0;
      float best = c.inputs[0].get(offset);
      for (std::int64_t i = 1; i < shape[axis] && best == best; ++i) {
        const float v = c.inputs[0].get(offset + i * stride);
        if (v > best || v != v) {
          best = v;
          at = i;
        }
      }
      c.outputs[0].set_int(o, at);
    });
  }
  static ShardRule shard(const InTypes& in, const Types&, const Attrs& a) {
    const std::int64_t axis = a.integer("axis");
    ShardRule rule{{letters_without(in[0].shape.size(), {axis})}, {letters_without(in[0].shape.size(), {axis})}};
    rule.outputs[0].erase(static_cast<std::size_t>(axis), 1);
    return rule;
  }
  static std::vector<Sample> samples() { return axis_samples(false); }
};

}  // namespace

/// Position (i32) of the largest element along `axis`; the lowest where several are equal; the first NaN where there is
/// one.
/// @api Value argmax(const Value& x, std::int64_t axis = -1);
Value argmax(const Value& x, std::int64_t axis) {
  return apply1("argmax", {x}, {{"axis", std::int64_t{ir::normal_axis(axis, x.rank(), "argmax")}}});
}

ISOTONE_OP(argmax, Argmax);

}  // namespace isotone::ops
