// The gradient of rms_norm to its input, and what its weight gradient is contracted from.
#include "ops/support/rows.h"
#include "ops/support/shard.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct RmsNormGrad : GradientOfDecomposition {
  static constexpr std::string_view name = "rms_norm_grad";
  static Types infer(const InTypes& in, const Attrs&) {
    require(in.size() == 3, "rms_norm_grad: takes x, the weight and the cotangent, got {} inputs", in.size());
    require_rows(name, in[0]);
    require_same_type(name, in, 0, 2);
    require(in[1].rank() == 1 && in[1].shape[0] == in[0].shape.back(), "rms_norm_grad: weight {} does not fit {}",
            ir::to_string(in[1]), ir::to_string(in[0]));
    return {in[0], in[0]};
  }
  static Values decompose(const Values& in, const Attrs& a) {
    const Value x = as_f32(in[0]);
    const Value r = rms_scale(x, a.real("eps"));
    const Value g = mul(as_f32(in[2]), as_f32(in[1]));
    const Value c = mul(div(row_sum(mul(g, x)), constant(row_length(x))), mul(mul(r, r), r));
    return {cast(sub(mul(g, r), mul(x, c)), in[0].dtype()), cast(mul(x, r), in[0].dtype())};
  }
  static ShardRule shard(const InTypes& in, const Types& out, const Attrs&) { return rows_rule(in, out, "rtr", "rr"); }
  static std::vector<Sample> samples() {
    std::vector<Sample> out;
    for (const DType t : {DType::f32, DType::bf16}) {
      for (const Shape& s : {Shape{3, 33}, Shape{2, 576}, Shape{1, 1000}}) {
        out.push_back({{{{t, s}}, {{DType::f32, {s.back()}}, 0.5, 1.5}, {{t, s}}},
                       {{"eps", 1e-5}},
                       t == DType::f32 && s.back() < 100});
      }
    }
    return out;
  }
};

}  // namespace

/// {dx, h}: the gradient of rms_norm to x, and h = x / sqrt(mean(x*x) + eps), both of x's type.
/// @api Values rms_norm_grad(const Value& x, const Value& weight, const Value& dy, double eps);
Values rms_norm_grad(const Value& x, const Value& weight, const Value& dy, double eps) {
  return apply("rms_norm_grad", {x, weight, dy}, {{"eps", eps}});
}

ISOTONE_OP(rms_norm_grad, RmsNormGrad);

}  // namespace isotone::ops
