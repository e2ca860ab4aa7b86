// Rows times the matrices of their experts (Shazeer et al., 2017). Letters: ops/support/experts.h.
#include "ops/support/contraction_tree.h"
#include "ops/support/experts.h"
#include "ops/support/shard.h"

namespace isotone::ops {
namespace {

struct ExpertLinear {
  static constexpr std::string_view name = "expert_linear";
  static Types infer(const InTypes& in, const Attrs&) {
    require(in.size() == 3, "expert_linear: takes rows, weights and ids, got {} inputs", in.size());
    require_expert_rows(name, in[0], in[2]);
    require(in[1].dtype == in[0].dtype && in[1].rank() == 3 && in[1].shape[2] == in[0].shape[3],
            "expert_linear: weights [expert, out, in] of the rows' dtype and width are needed, got {} with rows {}",
            ir::to_string(in[1]), ir::to_string(in[0]));
    Shape out = in[0].shape;
    out[3] = in[1].shape[1];
    return {{in[0].dtype, out}};
  }
  static Values vjp(const VjpCall& c) {
    const Value &x = c.inputs[0], &w = c.inputs[1], &ids = c.inputs[2];
    const Value g = cast(c.cotangents[0], x.dtype());
    return {c.wanted[0] ? expert_linear(g, swap_axes(w, 1, 2), ids) : Value(),
            c.wanted[1] ? expert_linear_grad(x, g, ids, w.dim(0)) : Value(), Value()};
  }
  static void reference(const ReferenceCall& c) {
    const HostTensor &x = c.inputs[0], &w = c.inputs[1], &ids = c.inputs[2], &y = c.outputs[0];
    const std::int64_t experts = w.type->shape[0], n = w.type->shape[1], k = w.type->shape[2];
    for (std::int64_t row = 0; row < ids.elements(); ++row) {
      const std::int64_t id = checked_expert(name, ids.get_int(row), experts);
      for (std::int64_t j = 0; j < n; ++j) {
        y.set(row * n + j, id < 0 ? 0.0F
                                  : contraction_tree(
                                        x.type->dtype, k, [&](std::int64_t i) { return x.get(row * k + i); },
                                        [&](std::int64_t i) { return w.get((id * n + j) * k + i); }));
      }
    }
  }
  /// Every row is one worker's alone; one that has a part of the experts gives zeros for the rows of others.
  static ShardRule shard(const InTypes&, const Types&, const Attrs&) {
    ShardRule rule{{"gtk.", "xo.", "gtk"}, {"gtko"}};
    rule.joined = "x";
    rule.join = Join::select;
    return rule;
  }
  static Values local(const LocalCall& c) {
    const Value &x = c.inputs[0], &w = c.inputs[1], &ids = c.inputs[2];
    const Span mine = c.part('x');
    if (mine.size() == c.total('x')) {
      return {expert_linear(x, w, ids)};
    }
    // Numbers of experts are exact in f32, which has the arithmetic.
    const auto number = [](std::int64_t i) { return full({}, static_cast<double>(i)); };
    const Value id = cast(ids, DType::f32);
    const Value is_mine = logical_and(less_equal(number(mine.begin), id), less(id, number(mine.end)));
    return {expert_linear(x, w, cast(where(is_mine, sub(id, number(mine.begin)), number(-1)), ids.dtype()))};
  }
  static std::vector<Sample> samples() {
    std::vector<Sample> out;
    const auto add = [&](DType t, Shape x, Shape w, DType i, bool gradient) {
      const Shape ids(x.begin(), x.end() - 1);
      const auto experts = static_cast<double>(w[0]);
      out.push_back({{{{t, std::move(x)}}, {{t, std::move(w)}}, {{i, ids}, -1, experts}}, {}, gradient});
    };
    for (const DType t : {DType::f32, DType::bf16, DType::f16}) {
      add(t, {2, 5, 2, 7}, {3, 4, 7}, DType::i32, t == DType::f32);
      add(t, {3, 40, 3, 300}, {5, 70, 300}, DType::i32, false);
      add(t, {1, 1, 4, 600}, {9, 65, 600}, DType::i32, false);
    }
    add(DType::f32, {2, 9, 1, 33}, {4, 5, 33}, DType::i64, false);
    add(DType::f32, {2, 0, 2, 3}, {4, 5, 3}, DType::i32, false);
    return out;
  }
};

}  // namespace

/// y[g, t, k] = w[ids[g, t, k]] times x[g, t, k]: rows [grain, token, choice, in], weights [expert, out, in], ids (i32
/// or i64). A row's bits are those of linear() with its expert's matrix, whatever the other rows. An id of -1 names no
/// expert: the row is +0. The weights' gradient is f32.
/// @api Value expert_linear(const Value& x, const Value& w, const Value& ids);
Value expert_linear(const Value& x, const Value& w, const Value& ids) {
  return apply1("expert_linear", {x, w, ids});
}

ISOTONE_OP(expert_linear, ExpertLinear);

}  // namespace isotone::ops
