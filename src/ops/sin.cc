// The sine of each element, in radians.
#include "ops/support/elementwise.h"

namespace isotone::ops {
namespace {

struct Sin : Unary<Sin> {
  static constexpr std::string_view name = "sin";
  static float f(float x) { return fmath::sin(x); }
  static Value grad(const Value& x, const Value& y, const Value& g) {
    static_cast<void>(x);
    static_cast<void>(y);
    return mul(g, cos(x));
  }
};

}  // namespace

/// The sine of each element, in radians. f32, bf16 or f16 of any shape; the same type back.
/// @api Value sin(const Value& x);
Value sin(const Value& x) {
  return apply1("sin", {x});
}

ISOTONE_OP(sin, Sin);

}  // namespace isotone::ops
