// Rotary position embedding (Su et al., 2021), halves paired as Llama has it.
#include "ops/support/rows.h"
#include "ops/support/shard.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct Rope {
  static constexpr std::string_view name = "rope";
  static Types infer(const InTypes& in, const Attrs&) {
    require(in.size() == 3, "rope: takes x, cos and sin, got {} inputs", in.size());
    require_float(name, in[0]);
    require(in[0].rank() >= 2 && in[0].shape.back() % 2 == 0,
            "rope: x {} must be [..., token, head, width] of even width", ir::to_string(in[0]));
    Shape table = in[0].shape;
    table.pop_back();
    table.back() = in[0].shape.back() / 2;
    require(in[1] == (Type{DType::f32, table}) && in[2] == in[1], "rope: cos {} and sin {} must be f32{} for x {}",
            ir::to_string(in[1]), ir::to_string(in[2]), ir::to_string(table), ir::to_string(in[0]));
    return {in[0]};
  }
  static Values decompose(const Values& in, const Attrs&) {
    const Value x = as_f32(in[0]);
    const std::int64_t half = x.dim(-1) / 2;
    Shape table = x.shape();
    table[table.size() - 2] = 1;
    table.back() = half;
    const Value c = reshape(in[1], table), s = reshape(in[2], table);
    const Value x1 = slice_axis(x, -1, 0, half), x2 = slice_axis(x, -1, half, 2 * half);
    return {cast(concat({sub(mul(x1, c), mul(x2, s)), add(mul(x2, c), mul(x1, s))}, -1), in[0].dtype())};
  }
  static Values vjp(const VjpCall& c) {
    return {rope(cast(c.cotangents[0], c.inputs[0].dtype()), c.inputs[1], neg(c.inputs[2])), Value(), Value()};
  }
  static ShardRule shard(const InTypes& in, const Types&, const Attrs&) {
    // [..., token, head, width] and tables [..., token, width / 2]
    const std::size_t rank = in[0].shape.size();
    const std::string x = letters_without(rank, {static_cast<std::int64_t>(rank) - 1});
    const std::string table = x.substr(0, rank - 2) + ".";
    return {{x, table, table}, {x}};
  }
  static std::vector<Sample> samples() {
    std::vector<Sample> out;
    for (const DType t : {DType::f32, DType::bf16, DType::f16}) {
      out.push_back({{{{t, {2, 3, 4, 8}}}, {{DType::f32, {2, 3, 4}}, -1, 1}, {{DType::f32, {2, 3, 4}}, -1, 1}},
                     {},
                     t == DType::f32});
      out.push_back({{{{t, {5, 3, 64}}}, {{DType::f32, {5, 32}}, -1, 1}, {{DType::f32, {5, 32}}, -1, 1}}, {}, false});
    }
    return out;
  }
};

}  // namespace

/// The rotation of x [..., token, head, width] by angles whose cosines and sines are f32 [..., token, width / 2]:
/// y1 = x1 cos - x2 sin, y2 = x2 cos + x1 sin over the halves of the width. No gradient to the tables.
/// @api Value rope(const Value& x, const Value& cos, const Value& sin);
Value rope(const Value& x, const Value& cos, const Value& sin) {
  return apply1("rope", {x, cos, sin});
}

ISOTONE_OP(rope, Rope);

}  // namespace isotone::ops
