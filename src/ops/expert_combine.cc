// The answers of a token's experts, weighted and added. Letters: ops/support/experts.h.
#include "base/error.h"
#include "base/tree.h"
#include "ops/functions.h"
#include "ops/support/shard.h"

namespace isotone::ops {
namespace {

struct ExpertCombine {
  static constexpr std::string_view name = "expert_combine";
  static Types infer(const InTypes& in, const Attrs&) {
    require(in.size() == 2, "expert_combine: takes rows and weights, got {} inputs", in.size());
    require_float(name, in[0]);
    require(in[0].rank() == 4 && in[0].shape[2] >= 1 && in[1].dtype == DType::f32 &&
                in[1].shape == Shape(in[0].shape.begin(), in[0].shape.end() - 1),
            "expert_combine: takes rows [grain, token, choice, width] and f32 weights [grain, token, choice], got {} "
            "and {}",
            ir::to_string(in[0]), ir::to_string(in[1]));
    return {{in[0].dtype, {in[0].shape[0], in[0].shape[1], in[0].shape[3]}}};
  }
  static Values decompose(const Values& in, const Attrs&) {
    const Shape out{in[0].dim(0), in[0].dim(1), in[0].dim(3)};
    const auto item = [&](std::int64_t k) {
      return mul(reshape(cast(slice_axis(in[0], 2, k, k + 1), DType::f32), out), slice_axis(in[1], 2, k, k + 1));
    };
    const Value y = element_tree(0, in[0].dim(2), item, [](const Value& l, const Value& r) { return add(l, r); });
    return {cast(y, in[0].dtype())};
  }
  static Values vjp(const VjpCall& c) {
    const Value &x = c.inputs[0], &w = c.inputs[1];
    const Value g = cast(c.cotangents[0], x.dtype());
    Values out(2);
    if (c.wanted[0]) {
      const Value wide = reshape(cast(g, DType::f32), {g.dim(0), g.dim(1), 1, g.dim(2)});
      out[0] = cast(mul(reshape(w, {w.dim(0), w.dim(1), w.dim(2), 1}), wide), x.dtype());
    }
    if (c.wanted[1]) {
      out[1] = contract(x, g, "gtko,gto->gtk", DType::f32);
    }
    return out;
  }
  static ShardRule shard(const InTypes&, const Types&, const Attrs&) { return {{"gt.o", "gt."}, {"gto"}}; }
  static std::vector<Sample> samples() {
    std::vector<Sample> out;
    for (const DType t : {DType::f32, DType::bf16, DType::f16}) {
      out.push_back({{{{t, {2, 3, 5, 4}}}, {{DType::f32, {2, 3, 5}}}}, {}, t == DType::f32});
      out.push_back({{{{t, {3, 40, 2, 70}}}, {{DType::f32, {3, 40, 2}}}}, {}, false});
    }
    out.push_back({{{{DType::f32, {1, 2, 1, 300}}}, {{DType::f32, {1, 2, 1}}}}, {}, false});
    out.push_back({{{{DType::f32, {2, 0, 2, 3}}}, {{DType::f32, {2, 0, 2}}}}, {}, false});
    return out;
  }
};

}  // namespace

/// The sum over the choices of w[g, t, k] * x[g, t, k]: rows [grain, token, choice, width], f32 weights [grain, token,
/// choice]; the element tree over the choices in f32, rounded once.
/// @api Value expert_combine(const Value& x, const Value& w);
Value expert_combine(const Value& x, const Value& w) {
  return apply1("expert_combine", {x, w});
}

ISOTONE_OP(expert_combine, ExpertCombine);

}  // namespace isotone::ops
