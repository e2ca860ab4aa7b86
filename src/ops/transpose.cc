// Reorders the axes.
#include "ops/functions.h"
#include "ops/support/shard.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct Transpose {
  static constexpr std::string_view name = "transpose";
  static constexpr bool wide_cotangent = true;
  static Types infer(const InTypes& in, const Attrs& a) {
    require(in.size() == 1, "transpose: takes one tensor, got {}", in.size());
    const Ints& order = a.ints("order");
    require(static_cast<int>(order.size()) == in[0].rank() && !is_quantised(in[0].dtype),
            "transpose: order {} does not fit {}", ir::to_string(order), ir::to_string(in[0]));
    Shape out;
    std::vector<bool> seen(order.size(), false);
    for (const std::int64_t axis : order) {
      require(axis >= 0 && axis < in[0].rank(), "transpose: axis {} of order {} is none of {}", axis,
              ir::to_string(order), ir::to_string(in[0]));
      const auto i = static_cast<std::size_t>(axis);
      require(!seen[i], "transpose: order {} names axis {} twice", ir::to_string(order), axis);
      seen[i] = true;
      out.push_back(in[0].shape[i]);
    }
    return {{in[0].dtype, out}};
  }
  static Values vjp(const VjpCall& c) {
    const Ints& order = c.attrs.ints("order");
    Ints back(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
    }
    return {transpose(c.cotangents[0], back)};
  }
  static void reference(const ReferenceCall& c) {
    const Ints& order = c.attrs.ints("order");
    const auto from = ir::contiguous_strides(c.inputs[0].type->shape);
    const Shape& shape = c.outputs[0].type->shape;
    const std::size_t unit = unit_bytes(c.outputs[0].type->dtype);
    for (std::int64_t i = 0; i < c.outputs[0].elements(); ++i) {
      std::int64_t rest = i, at = 0;
      for (std::size_t d = shape.size(); d-- > 0;) {
        at += rest % shape[d] * from[static_cast<std::size_t>(order[d])];
        rest /= shape[d];
      }
      std::memcpy(static_cast<std::byte*>(c.outputs[0].data) + static_cast<std::size_t>(i) * unit,
                  static_cast<const std::byte*>(c.inputs[0].data) + static_cast<std::size_t>(at) * unit, unit);
    }
  }
  static ShardRule shard(const InTypes& in, const Types&, const Attrs& a) {
    ShardRule rule{{letters_without(in[0].shape.size(), {})}, {""}};
    for (const std::int64_t i : a.ints("order")) {
      rule.outputs[0] += rule.inputs[0][static_cast<std::size_t>(i)];
    }
    return rule;
  }
  static std::vector<Sample> samples() {
    return {{{{{DType::f32, {4, 6}}}}, {{"order", Ints{1, 0}}}},
            {{{{DType::bf16, {2, 3, 5}}}}, {{"order", Ints{2, 0, 1}}}, false},
            {{{{DType::f32, {2, 3, 4, 5}}}}, {{"order", Ints{0, 2, 1, 3}}}}};
  }
};

}  // namespace

/// x with its axes in another order: axis i of the result is axis order[i] of x. No copy.
/// @api Value transpose(const Value& x, Ints order);
Value transpose(const Value& x, Ints order) {
  for (std::int64_t& a : order) {
    a = ir::normal_axis(a, x.rank(), "transpose");
  }
  return apply1("transpose", {x}, {{"order", std::move(order)}});
}

/// x with two axes exchanged. No copy.
/// @api Value swap_axes(const Value& x, std::int64_t a, std::int64_t b);
Value swap_axes(const Value& x, std::int64_t a, std::int64_t b) {
  Ints order(x.shape().size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    order[i] = static_cast<std::int64_t>(i);
  }
  std::swap(order[static_cast<std::size_t>(ir::normal_axis(a, x.rank(), "swap_axes"))],
            order[static_cast<std::size_t>(ir::normal_axis(b, x.rank(), "swap_axes"))]);
  return transpose(x, std::move(order));
}

ISOTONE_OP(transpose, Transpose);

}  // namespace isotone::ops
