// a / b, correctly rounded.
#include "ops/support/elementwise.h"

namespace isotone::ops {
namespace {

struct Div : Binary<Div> {
  static constexpr std::string_view name = "div";
  static float f(float a, float b) { return a / b; }
  static Values grads(const Value& a, const Value& b, const Value& y, const Value& g) {
    static_cast<void>(a);
    static_cast<void>(b);
    static_cast<void>(y);
    return {div(g, b), neg(div(mul(g, y), b))};
  }
  static std::vector<Sample> samples() {
    return [] {
      std::vector<Sample> s = binary_samples(0.3, 2.0);
      return s;
    }();
  }
};

}  // namespace

/// a / b, correctly rounded. Both of one float dtype; shapes broadcast.
/// @api Value div(const Value& a, const Value& b);
Value div(const Value& a, const Value& b) {
  return apply1("div", {a, b});
}

ISOTONE_OP(div, Div);

}  // namespace isotone::ops
