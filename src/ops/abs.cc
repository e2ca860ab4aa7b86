// The absolute value of each element; its gradient at 0 is 0.
#include "ops/support/elementwise.h"

namespace isotone::ops {
namespace {

struct Abs : Unary<Abs> {
  static constexpr std::string_view name = "abs";
  static float f(float x) { return std::fabs(x); }
  static Value grad(const Value& x, const Value& y, const Value& g) {
    static_cast<void>(x);
    static_cast<void>(y);
    return where(less(x, full_like(x, 0.0)), neg(g), where(equal(x, full_like(x, 0.0)), full_like(g, 0.0), g));
  }
};

}  // namespace

/// The absolute value of each element; its gradient at 0 is 0. f32, bf16 or f16 of any shape; the same type back.
/// @api Value abs(const Value& x);
Value abs(const Value& x) {
  return apply1("abs", {x});
}

ISOTONE_OP(abs, Abs);

}  // namespace isotone::ops
