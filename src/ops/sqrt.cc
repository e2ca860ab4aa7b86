// The square root of each element, correctly rounded; NaN below 0.
#include "ops/support/elementwise.h"

namespace isotone::ops {
namespace {

struct Sqrt : Unary<Sqrt> {
  static constexpr std::string_view name = "sqrt";
  static float f(float x) { return std::sqrt(x); }
  static Value grad(const Value& x, const Value& y, const Value& g) {
    static_cast<void>(x);
    static_cast<void>(y);
    return div(g, mul(y, full_like(y, 2.0)));
  }
  static std::vector<Sample> samples() { return unary_samples(0.2, 4.0); }
};

}  // namespace

/// The square root of each element, correctly rounded; NaN below 0. f32, bf16 or f16 of any shape; the same type back.
/// @api Value sqrt(const Value& x);
Value sqrt(const Value& x) {
  return apply1("sqrt", {x});
}

ISOTONE_OP(sqrt, Sqrt);

}  // namespace isotone::ops
