// The gradient of softmax.
#include "ops/support/rows.h"
#include "ops/support/shard.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct SoftmaxGrad : GradientOfDecomposition {
  static constexpr std::string_view name = "softmax_grad";
  static Types infer(const InTypes& in, const Attrs&) {
    require(in.size() == 2, "softmax_grad: takes the softmax and its cotangent, got {} inputs", in.size());
    require_rows(name, in[0]);
    require_same_type(name, in, 0, 1);
    return {in[0]};
  }
  static Values decompose(const Values& in, const Attrs&) {
    const Value y = as_f32(in[0]), g = as_f32(in[1]);
    return {cast(mul(y, sub(g, row_sum(mul(g, y)))), in[0].dtype())};
  }
  static ShardRule shard(const InTypes& in, const Types& out, const Attrs&) { return rows_rule(in, out, "rr", "r"); }
  static std::vector<Sample> samples() { return row_samples(2); }
};

}  // namespace

/// y * (dy - sum(dy * y)) along the last axis: y from softmax, dy of the same type.
/// @api Value softmax_grad(const Value& y, const Value& dy);
Value softmax_grad(const Value& y, const Value& dy) {
  return apply1("softmax_grad", {y, dy});
}

ISOTONE_OP(softmax_grad, SoftmaxGrad);

}  // namespace isotone::ops
