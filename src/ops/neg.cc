// The negative of each element.
#include "ops/support/elementwise.h"

namespace isotone::ops {
namespace {

struct Neg : Unary<Neg> {
  static constexpr std::string_view name = "neg";
  static float f(float x) { return -x; }
  static Value grad(const Value& x, const Value& y, const Value& g) {
    static_cast<void>(x);
    static_cast<void>(y);
    return neg(g);
  }
};

}  // namespace

/// The negative of each element. f32, bf16 or f16 of any shape; the same type back.
/// @api Value neg(const Value& x);
Value neg(const Value& x) {
  return apply1("neg", {x});
}

ISOTONE_OP(neg, Neg);

}  // namespace isotone::ops
