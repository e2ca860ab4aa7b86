// The larger of a and b; NaN where either is. Where they are equal the gradient goes to a.
#include "ops/support/elementwise.h"

namespace isotone::ops {
namespace {

struct Maximum : Binary<Maximum> {
  static constexpr std::string_view name = "maximum";
  static float f(float a, float b) { return std::isnan(a) || std::isnan(b) ? NAN : (a < b ? b : a); }
  static Values grads(const Value& a, const Value& b, const Value& y, const Value& g) {
    static_cast<void>(a);
    static_cast<void>(b);
    static_cast<void>(y);
    return {where(less(a, b), full_like(g, 0.0), g), where(less(a, b), g, full_like(g, 0.0))};
  }
};

}  // namespace

/// The larger of a and b; NaN where either is. Where they are equal the gradient goes to a. Both of one float dtype;
/// shapes broadcast.
/// @api Value maximum(const Value& a, const Value& b);
Value maximum(const Value& a, const Value& b) {
  return apply1("maximum", {a, b});
}

ISOTONE_OP(maximum, Maximum);

}  // namespace isotone::ops
