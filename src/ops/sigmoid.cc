// 1 / (1 + exp(-x)) of each element.
#include "ops/support/elementwise.h"

namespace isotone::ops {
namespace {

struct Sigmoid : UnaryComposite<Sigmoid> {
  static constexpr std::string_view name = "sigmoid";
  static Value f32(const Value& x) { return div(full_like(x, 1.0), add(full_like(x, 1.0), exp(neg(x)))); }
  static Value grad(const Value& x, const Value& g) {
    const Value y = sigmoid(x);
    return mul(g, mul(y, sub(full_like(y, 1.0), y)));
  }
};

}  // namespace

/// 1 / (1 + exp(-x)) of each element. f32, bf16 or f16 of any shape; the same type back.
/// @api Value sigmoid(const Value& x);
Value sigmoid(const Value& x) {
  return apply1("sigmoid", {x});
}

ISOTONE_OP(sigmoid, Sigmoid);

}  // namespace isotone::ops
