// a to the power b. The gradient to b is 0 where a is not above 0.
#include "ops/support/elementwise.h"

namespace isotone::ops {
namespace {

struct Pow : Binary<Pow> {
  static constexpr std::string_view name = "pow";
  static float f(float a, float b) { return fmath::pow(a, b); }
  static Values grads(const Value& a, const Value& b, const Value& y, const Value& g) {
    static_cast<void>(a);
    static_cast<void>(b);
    static_cast<void>(y);
    return {mul(g, mul(b, pow(a, sub(b, full_like(b, 1.0))))),
            where(less(full_like(a, 0.0), a), mul(g, mul(y, log(maximum(a, full_like(a, 1e-30))))), full_like(g, 0.0))};
  }
  static std::vector<Sample> samples() { return binary_samples(0.3, 2.0); }
};

}  // namespace

/// a to the power b. The gradient to b is 0 where a is not above 0. Both of one float dtype; shapes broadcast.
/// @api Value pow(const Value& a, const Value& b);
Value pow(const Value& a, const Value& b) {
  return apply1("pow", {a, b});
}

ISOTONE_OP(pow, Pow);

}  // namespace isotone::ops
