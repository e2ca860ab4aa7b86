// e to the power of each element (error bound: docs/numerics.md).
#include "ops/support/elementwise.h"

namespace isotone::ops {
namespace {

struct Exp : Unary<Exp> {
  static constexpr std::string_view name = "exp";
  static float f(float x) { return fmath::exp(x); }
  static Value grad(const Value& x, const Value& y, const Value& g) {
    static_cast<void>(x);
    static_cast<void>(y);
    return mul(g, y);
  }
};

}  // namespace

/// e to the power of each element (error bound: docs/numerics.md). f32, bf16 or f16 of any shape; the same type back.
/// @api Value exp(const Value& x);
Value exp(const Value& x) {
  return apply1("exp", {x});
}

ISOTONE_OP(exp, Exp);

}  // namespace isotone::ops
