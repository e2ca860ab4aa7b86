// The smaller of a and b; NaN where either is. Where they are equal the gradient goes to a.
#include "ops/support/elementwise.h"

namespace isotone::ops {
namespace {

struct Minimum : Binary<Minimum> {
  static constexpr std::string_view name = "minimum";
  static float f(float a, float b) { return std::isnan(a) || std::isnan(b) ? NAN : (b < a ? b : a); }
  static Values grads(const Value& a, const Value& b, const Value& y, const Value& g) {
    static_cast<void>(a);
    static_cast<void>(b);
    static_cast<void>(y);
    return {where(less(b, a), full_like(g, 0.0), g), where(less(b, a), g, full_like(g, 0.0))};
  }
};

}  // namespace

/// The smaller of a and b; NaN where either is. Where they are equal the gradient goes to a. Both of one float dtype;
/// shapes broadcast.
/// @api Value minimum(const Value& a, const Value& b);
Value minimum(const Value& a, const Value& b) {
  return apply1("minimum", {a, b});
}

ISOTONE_OP(minimum, Minimum);

}  // namespace isotone::ops
