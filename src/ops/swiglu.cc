// The gated linear unit of Llama (Shazeer, 2020).
#include "ops/support/rows.h"
#include "ops/support/shard.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct Swiglu : Elementwise {
  static constexpr std::string_view name = "swiglu";
  static Types infer(const InTypes& in, const Attrs&) {
    require(in.size() == 2, "swiglu: takes the gate and the up projection, got {} inputs", in.size());
    require_float(name, in[0]);
    require_same_type(name, in, 0, 1);
    return {in[0]};
  }
  static Values decompose(const Values& in, const Attrs&) {
    return {cast(mul(silu(as_f32(in[0])), as_f32(in[1])), in[0].dtype())};
  }
  static Values vjp(const VjpCall& c) {
    return swiglu_grad(c.inputs[0], c.inputs[1], cast(c.cotangents[0], c.inputs[0].dtype()));
  }
  static std::vector<Sample> samples() { return row_samples(2); }
};

}  // namespace

/// silu(gate) * up, element by element; two tensors of one float type; rounded once.
/// @api Value swiglu(const Value& gate, const Value& up);
Value swiglu(const Value& gate, const Value& up) {
  return apply1("swiglu", {gate, up});
}

ISOTONE_OP(swiglu, Swiglu);

}  // namespace isotone::ops
