// The hyperbolic tangent of each element.
#include "ops/support/elementwise.h"

namespace isotone::ops {
namespace {

struct Tanh : Unary<Tanh> {
  static constexpr std::string_view name = "tanh";
  static float f(float x) { return fmath::tanh(x); }
  static Value grad(const Value& x, const Value& y, const Value& g) {
    static_cast<void>(x);
    static_cast<void>(y);
    return mul(g, sub(full_like(y, 1.0), mul(y, y)));
  }
};

}  // namespace

/// The hyperbolic tangent of each element. f32, bf16 or f16 of any shape; the same type back.
/// @api Value tanh(const Value& x);
Value tanh(const Value& x) {
  return apply1("tanh", {x});
}

ISOTONE_OP(tanh, Tanh);

}  // namespace isotone::ops
