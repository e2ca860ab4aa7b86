// The gradient of cross_entropy.
#include "ops/support/rows.h"
#include "ops/support/shard.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct CrossEntropyGrad : GradientOfDecomposition {
  static constexpr std::string_view name = "cross_entropy_grad";
  static Types infer(const InTypes& in, const Attrs&) {
    require(in.size() == 4,
            "cross_entropy_grad: takes logits, logsumexp, targets and the loss's cotangent, got {} inputs", in.size());
    require_rows(name, in[0]);
    const Shape rows(in[0].shape.begin(), in[0].shape.end() - 1);
    require(in[1] == (Type{DType::f32, rows}) && in[2] == (Type{DType::i32, rows}) && in[3] == (Type{DType::f32, rows}),
            "cross_entropy_grad: {}, {} and {} do not fit the rows of {}", ir::to_string(in[1]), ir::to_string(in[2]),
            ir::to_string(in[3]), ir::to_string(in[0]));
    return {in[0]};
  }
  static Values decompose(const Values& in, const Attrs&) {
    const Value x = as_f32(in[0]);
    Shape column = in[2].shape();
    column.push_back(1);
    const Value target = reshape(in[2], column);
    const Value p = exp(sub(x, reshape(in[1], column)));
    const Value hit = cast(equal(target, iota({x.dim(-1)})), DType::f32);
    const Value g = mul(sub(p, hit), reshape(in[3], column));
    return {cast(where(less(target, full({}, 0.0, DType::i32)), constant(0.0), g), in[0].dtype())};
  }
  static ShardRule shard(const InTypes& in, const Types& out, const Attrs&) { return rows_rule(in, out, "rvvv", "r"); }
  static std::vector<Sample> samples() {
    std::vector<Sample> out;
    for (const DType t : {DType::f32, DType::bf16}) {
      out.push_back(
          {{{{t, {3, 4, 11}}}, {{DType::f32, {3, 4}}, 3, 4}, {{DType::i32, {3, 4}}, -1, 11}, {{DType::f32, {3, 4}}}},
           {},
           t == DType::f32});
    }
    return out;
  }
};

}  // namespace

/// (exp(logits - lse) - [class = target]) * dloss, +0 where the target is masked; in the logits' type.
/// @api Value cross_entropy_grad(const Value& logits, const Value& lse, const Value& targets, const Value& dloss);
Value cross_entropy_grad(const Value& logits, const Value& lse, const Value& targets, const Value& dloss) {
  return apply1("cross_entropy_grad", {logits, lse, targets, dloss});
}

ISOTONE_OP(cross_entropy_grad, CrossEntropyGrad);

}  // namespace isotone::ops
