// Gradient of the experts' matrices. Letters: ops/support/experts.h.
#include "ops/support/attributes.h"
#include "ops/support/contraction_tree.h"
#include "ops/support/experts.h"

namespace isotone::ops {
namespace {

struct ExpertLinearGrad {
  static constexpr std::string_view name = "expert_linear_grad";
  static Types infer(const InTypes& in, const Attrs& a) {
    require(in.size() == 3, "expert_linear_grad: takes rows, gradients and ids, got {} inputs", in.size());
    require_expert_rows(name, in[0], in[2]);
    require_expert_rows(name, in[1], in[2]);
    require_same_dtype(name, in, 0, 1);
    require(a.integer("dtype") == as_attr(DType::f32), "expert_linear_grad: the result is f32, not dtype {}",
            a.integer("dtype"));
    const Shape out{a.integer("experts"), in[1].shape[3], in[0].shape[3]};
    require_sizes(name, out);
    return {{DType::f32, out}};
  }
  static Values vjp(const VjpCall& c) {
    const Value &x = c.inputs[0], &dy = c.inputs[1], &ids = c.inputs[2];
    const Value g = cast(c.cotangents[0], x.dtype());
    return {c.wanted[0] ? expert_linear(dy, swap_axes(g, 1, 2), ids) : Value(),
            c.wanted[1] ? expert_linear(x, g, ids) : Value(), Value()};
  }
  static void reference(const ReferenceCall& c) {
    const HostTensor &x = c.inputs[0], &dy = c.inputs[1], &ids = c.inputs[2], &dw = c.outputs[0];
    const std::int64_t grains = ids.type->shape[0], rows = ids.type->shape[1] * ids.type->shape[2];
    const std::int64_t experts = dw.type->shape[0], n = dw.type->shape[1], k = dw.type->shape[2];
    std::vector<std::vector<std::int64_t>> lists(static_cast<std::size_t>(experts * grains));
    for (std::int64_t i = 0; i < ids.elements(); ++i) {
      if (const std::int64_t id = checked_expert(name, ids.get_int(i), experts); id >= 0) {
        lists[static_cast<std::size_t>(id * grains + i / rows)].push_back(i);
      }
    }
    for (std::int64_t o = 0; o < dw.elements(); ++o) {
      const std::int64_t expert = o / (n * k), row = o / k % n, column = o % k;
      const auto grain = [&](std::int64_t g) {
        const auto& list = lists[static_cast<std::size_t>(expert * grains + g)];
        const auto at = [&](std::int64_t i) { return list[static_cast<std::size_t>(i)]; };
        return contraction_tree(
            x.type->dtype, static_cast<std::int64_t>(list.size()),
            [&](std::int64_t i) { return dy.get(at(i) * n + row); },
            [&](std::int64_t i) { return x.get(at(i) * k + column); });
      };
      dw.set(o, grains == 0 ? 0.0F : element_tree(0, grains, grain, [](float l, float r) { return l + r; }));
    }
  }
  static ShardRule shard(const InTypes&, const Types&, const Attrs&) {
    ShardRule rule{{"g..i", "g..o", "g.."}, {".oi"}};
    // Over grains an element tree. The axis tree inside, over an expert's list, is not cut: no dimension has its
    // letter.
    rule.joined = "gl";
    return rule;
  }
  static std::vector<Sample> samples() {
    std::vector<Sample> out;
    const auto add = [&](DType t, const Shape& ids, std::int64_t k, std::int64_t n, std::int64_t experts, DType i,
                         bool gradient) {
      Shape x = ids, dy = ids;
      x.push_back(k);
      dy.push_back(n);
      out.push_back({{{{t, x}}, {{t, dy}}, {{i, ids}, -1, static_cast<double>(experts)}},
                     {{"experts", experts}, {"dtype", as_attr(DType::f32)}},
                     gradient});
    };
    for (const DType t : {DType::f32, DType::bf16, DType::f16}) {
      add(t, {2, 5, 2}, 4, 3, 3, DType::i32, t == DType::f32);
      add(t, {3, 400, 2}, 20, 66, 2, DType::i32, false);
      add(t, {5, 7, 1}, 33, 5, 6, DType::i32, false);
    }
    add(DType::f32, {2, 9, 1}, 3, 5, 4, DType::i64, false);
    add(DType::f32, {0, 4, 2}, 3, 5, 2, DType::i32, false);
    return out;
  }
};

}  // namespace

/// For each of `experts`: the sum over its rows of dy [grain, token, choice, out] times x [grain, token, choice, in].
/// Per grain the axis tree over the expert's rows in ascending order, over the grains the element tree; +0 where it has
/// none. f32 [experts, out, in].
/// @api Value expert_linear_grad(const Value& x, const Value& dy, const Value& ids, std::int64_t experts);
Value expert_linear_grad(const Value& x, const Value& dy, const Value& ids, std::int64_t experts) {
  return apply1("expert_linear_grad", {x, dy, ids}, {{"experts", experts}, {"dtype", as_attr(DType::f32)}});
}

ISOTONE_OP(expert_linear_grad, ExpertLinearGrad);

}  // namespace isotone::ops
