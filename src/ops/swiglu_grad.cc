// The gradients of swiglu.
#include "ops/support/rows.h"
#include "ops/support/shard.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct SwigluGrad : GradientOfDecomposition, Elementwise {
  static constexpr std::string_view name = "swiglu_grad";
  static Types infer(const InTypes& in, const Attrs&) {
    require(in.size() == 3, "swiglu_grad: takes gate, up and the cotangent, got {} inputs", in.size());
    require_float(name, in[0]);
    require_same_type(name, in, 0, 1);
    require_same_type(name, in, 0, 2);
    return {in[0], in[0]};
  }
  static Values decompose(const Values& in, const Attrs&) {
    const Value gate = as_f32(in[0]), up = as_f32(in[1]), dy = as_f32(in[2]);
    const Value one = constant(1.0);
    const Value e = div(one, add(one, exp(neg(gate))));
    const Value dgate = mul(mul(dy, up), mul(e, add(one, mul(gate, sub(one, e)))));
    return {cast(dgate, in[0].dtype()), cast(mul(dy, mul(gate, e)), in[0].dtype())};
  }
  static std::vector<Sample> samples() { return row_samples(3); }
};

}  // namespace

/// {dgate, dup} of swiglu, in the order docs/numerics.md section 12 writes out.
/// @api Values swiglu_grad(const Value& gate, const Value& up, const Value& dy);
Values swiglu_grad(const Value& gate, const Value& up, const Value& dy) {
  return apply("swiglu_grad", {gate, up, dy});
}

ISOTONE_OP(swiglu_grad, SwigluGrad);

}  // namespace isotone::ops
