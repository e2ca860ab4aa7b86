// Repeats a tensor along axes of size 1.
#include "ops/support/attributes.h"
#include "ops/support/elementwise.h"
#include "ops/support/shard.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct BroadcastTo {
  static constexpr std::string_view name = "broadcast_to";
  static constexpr bool wide_cotangent = true;
  static Types infer(const InTypes& in, const Attrs& a) {
    require(in.size() == 1, "broadcast_to: takes one tensor, got {}", in.size());
    require(!is_quantised(in[0].dtype), "broadcast_to: takes a tensor that is not quantised, got {}",
            ir::to_string(in[0]));
    const Shape& shape = shape_attr(name, a);
    require(ir::broadcast_shapes(in[0].shape, shape, name) == shape, "broadcast_to: {} does not broadcast to {}",
            ir::to_string(in[0]), ir::to_string(shape));
    return {{in[0].dtype, shape}};
  }
  static Values vjp(const VjpCall& c) { return {sum_to(c.cotangents[0], c.inputs[0].shape())}; }
  static void reference(const ReferenceCall& c) {
    const bool floats = is_float(c.outputs[0].type->dtype);
    for_each_broadcast(
        c.outputs[0].type->shape, c.inputs[0].type->shape, {}, [&](std::int64_t i, std::int64_t a, std::int64_t) {
          floats ? c.outputs[0].set(i, c.inputs[0].get(a)) : c.outputs[0].set_int(i, c.inputs[0].get_int(a));
        });
  }
  static ShardRule shard(const InTypes& in, const Types& out, const Attrs&) { return elementwise_rule(in, out); }
  static std::vector<Sample> samples() {
    return {{{{{DType::f32, {3, 1}}}}, {{"shape", Ints{2, 3, 5}}}},
            {{{{DType::bf16, {7}}}}, {{"shape", Ints{4, 7}}}, false},
            {{{{DType::i32, {}}, 0, 9}}, {{"shape", Ints{3}}}, false}};
  }
};

}  // namespace

/// x repeated to `shape` by numpy's rule. No copy.
/// @api Value broadcast_to(const Value& x, const Shape& shape);
Value broadcast_to(const Value& x, const Shape& shape) {
  return x.shape() == shape ? x : apply1("broadcast_to", {x}, {{"shape", shape}});
}

ISOTONE_OP(broadcast_to, BroadcastTo);

}  // namespace isotone::ops
