// The cosine of each element, in radians.
#include "ops/support/elementwise.h"

namespace isotone::ops {
namespace {

struct Cos : Unary<Cos> {
  static constexpr std::string_view name = "cos";
  static float f(float x) { return fmath::cos(x); }
  static Value grad(const Value& x, const Value& y, const Value& g) {
    static_cast<void>(x);
    static_cast<void>(y);
    return neg(mul(g, sin(x)));
  }
};

}  // namespace

/// The cosine of each element, in radians. f32, bf16 or f16 of any shape; the same type back.
/// @api Value cos(const Value& x);
Value cos(const Value& x) {
  return apply1("cos", {x});
}

ISOTONE_OP(cos, Cos);

}  // namespace isotone::ops
