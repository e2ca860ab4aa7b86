// x / (1 + exp(-x)) of each element, also called swish (Elfwing et al., 2017).
#include "ops/support/elementwise.h"

namespace isotone::ops {
namespace {

struct Silu : UnaryComposite<Silu> {
  static constexpr std::string_view name = "silu";
  static Value f32(const Value& x) { return div(x, add(full_like(x, 1.0), exp(neg(x)))); }
  static Value grad(const Value& x, const Value& g) {
    const Value s = sigmoid(x);
    const Value one = full_like(x, 1.0);
    return mul(g, mul(s, add(one, mul(x, sub(one, s)))));
  }
};

}  // namespace

/// x / (1 + exp(-x)) of each element, also called swish (Elfwing et al., 2017). f32, bf16 or f16 of any shape; the same
/// type back.
/// @api Value silu(const Value& x);
Value silu(const Value& x) {
  return apply1("silu", {x});
}

ISOTONE_OP(silu, Silu);

}  // namespace isotone::ops
