// The tanh approximation of the Gaussian error linear unit of each element.
#include "ops/support/elementwise.h"

namespace isotone::ops {
namespace {

struct GeluTanh : UnaryComposite<GeluTanh> {
  static constexpr std::string_view name = "gelu_tanh";
  static Value f32(const Value& x) {
    const Value cube = mul(mul(x, x), x);
    const Value inner = mul(full_like(x, 0.7978845608028654), add(x, mul(full_like(x, 0.044715), cube)));
    return mul(mul(x, full_like(x, 0.5)), add(full_like(x, 1.0), tanh(inner)));
  }
  static Value grad(const Value& x, const Value& g) {
    const Value one = full_like(x, 1.0);
    const Value square = mul(x, x);
    const Value c = full_like(x, 0.7978845608028654);
    const Value t = tanh(mul(c, add(x, mul(full_like(x, 0.044715), mul(square, x)))));
    const Value slope = mul(c, add(one, mul(full_like(x, 0.134145), square)));
    const Value half = full_like(x, 0.5);
    const Value left = mul(half, add(one, t));
    const Value right = mul(mul(half, x), mul(sub(one, mul(t, t)), slope));
    return mul(g, add(left, right));
  }
};

}  // namespace

/// The tanh approximation of the Gaussian error linear unit of each element. f32, bf16 or f16 of any shape; the same
/// type back.
/// @api Value gelu_tanh(const Value& x);
Value gelu_tanh(const Value& x) {
  return apply1("gelu_tanh", {x});
}

ISOTONE_OP(gelu_tanh, GeluTanh);

}  // namespace isotone::ops
