// Chooses between two tensors element by element.
#include "ops/support/elementwise.h"
#include "ops/support/shard.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct Where : Elementwise {
  static constexpr std::string_view name = "where";
  static Types infer(const InTypes& in, const Attrs&) {
    require(in.size() == 3, "where: takes a condition and two tensors, got {} inputs", in.size());
    require(in[0].dtype == DType::boolean, "where: the condition must be bool, got {}", ir::to_string(in[0]));
    require_same_dtype(name, in, 1, 2);
    return {
        {in[1].dtype, ir::broadcast_shapes(in[0].shape, ir::broadcast_shapes(in[1].shape, in[2].shape, name), name)}};
  }
  static Values vjp(const VjpCall& c) {
    const Value& g = c.cotangents[0];
    const Value zero = full_like(g, 0.0);
    return {Value(), c.wanted[1] ? sum_to(where(c.inputs[0], g, zero), c.inputs[1].shape()) : Value(),
            c.wanted[2] ? sum_to(where(c.inputs[0], zero, g), c.inputs[2].shape()) : Value()};
  }
  static void reference(const ReferenceCall& c) {
    const HostTensor& out = c.outputs[0];
    std::vector<std::int64_t> condition(static_cast<std::size_t>(out.elements()));
    const Shape& shape = out.type->shape;
    for_each_broadcast(shape, c.inputs[0].type->shape, {}, [&](std::int64_t i, std::int64_t a, std::int64_t) {
      condition[static_cast<std::size_t>(i)] = c.inputs[0].get_int(a);
    });
    const bool floats = is_float(out.type->dtype);
    for_each_broadcast(shape, c.inputs[1].type->shape, c.inputs[2].type->shape,
                       [&](std::int64_t i, std::int64_t a, std::int64_t b) {
                         const bool first = condition[static_cast<std::size_t>(i)] != 0;
                         const HostTensor& from = c.inputs[first ? 1 : 2];
                         const std::int64_t at = first ? a : b;
                         floats ? out.set(i, from.get(at)) : out.set_int(i, from.get_int(at));
                       });
  }
  static std::vector<Sample> samples() {
    std::vector<Sample> out;
    for (const DType t : {DType::f32, DType::bf16, DType::f16, DType::i32}) {
      out.push_back({{{{DType::boolean, {3, 37}}, 0, 2}, {{t, {3, 37}}}, {{t, {37}}}}, {}, t == DType::f32});
      out.push_back({{{{DType::boolean, {3, 1}}, 0, 2}, {{t, {5}}}, {{t, {}}}}, {}, t == DType::f32});
    }
    return out;
  }
};

}  // namespace

/// a where `condition` (bool) holds, else b. a and b of one dtype; the three shapes broadcast.
/// @api Value where(const Value& condition, const Value& a, const Value& b);
Value where(const Value& condition, const Value& a, const Value& b) {
  return apply1("where", {condition, a, b});
}

ISOTONE_OP(where, Where);

}  // namespace isotone::ops
