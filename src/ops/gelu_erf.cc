// The exact Gaussian error linear unit of each element (Hendrycks and Gimpel, 2016).
#include "ops/support/elementwise.h"

namespace isotone::ops {
namespace {

struct GeluErf : UnaryComposite<GeluErf> {
  static constexpr std::string_view name = "gelu_erf";
  static Value f32(const Value& x) {
    const Value e = erf(mul(x, full_like(x, 0.7071067811865476)));
    return mul(mul(x, full_like(x, 0.5)), add(full_like(x, 1.0), e));
  }
  static Value grad(const Value& x, const Value& g) {
    const Value cdf = mul(full_like(x, 0.5), add(full_like(x, 1.0), erf(mul(x, full_like(x, 0.7071067811865476)))));
    const Value pdf = mul(full_like(x, 0.3989422804014327), exp(mul(full_like(x, -0.5), mul(x, x))));
    return mul(g, add(cdf, mul(x, pdf)));
  }
};

}  // namespace

/// The exact Gaussian error linear unit of each element (Hendrycks and Gimpel, 2016). f32, bf16 or f16 of any shape;
/// the same type back.
/// @api Value gelu_erf(const Value& x);
Value gelu_erf(const Value& x) {
  return apply1("gelu_erf", {x});
}

ISOTONE_OP(gelu_erf, GeluErf);

}  // namespace isotone::ops
