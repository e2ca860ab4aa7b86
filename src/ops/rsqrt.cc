// 1 / sqrt(x) of each element, both steps correctly rounded.
#include "ops/support/elementwise.h"

namespace isotone::ops {
namespace {

struct Rsqrt : UnaryComposite<Rsqrt> {
  static constexpr std::string_view name = "rsqrt";
  static Value f32(const Value& x) { return div(full_like(x, 1.0), sqrt(x)); }
  static Value grad(const Value& x, const Value& g) {
    const Value y = rsqrt(x);
    return mul(mul(g, full_like(x, -0.5)), mul(y, mul(y, y)));
  }
  static std::vector<Sample> samples() { return Unary<Rsqrt>::unary_samples(0.2, 4.0); }
};

}  // namespace

/// 1 / sqrt(x) of each element, both steps correctly rounded. f32, bf16 or f16 of any shape; the same type back.
/// @api Value rsqrt(const Value& x);
Value rsqrt(const Value& x) {
  return apply1("rsqrt", {x});
}

ISOTONE_OP(rsqrt, Rsqrt);

}  // namespace isotone::ops
