// The error function of each element.
#include "ops/support/elementwise.h"

namespace isotone::ops {
namespace {

struct Erf : Unary<Erf> {
  static constexpr std::string_view name = "erf";
  static float f(float x) { return fmath::erf(x); }
  static Value grad(const Value& x, const Value& y, const Value& g) {
    static_cast<void>(x);
    static_cast<void>(y);
    return mul(mul(g, full_like(x, 1.1283791670955126)), exp(neg(mul(x, x))));
  }
};

}  // namespace

/// The error function of each element. f32, bf16 or f16 of any shape; the same type back.
/// @api Value erf(const Value& x);
Value erf(const Value& x) {
  return apply1("erf", {x});
}

ISOTONE_OP(erf, Erf);

}  // namespace isotone::ops
