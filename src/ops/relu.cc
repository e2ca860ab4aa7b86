// max(x, 0) of each element; its gradient at 0 is 0.
#include "ops/support/elementwise.h"

namespace isotone::ops {
namespace {

struct Relu : UnaryComposite<Relu> {
  static constexpr std::string_view name = "relu";
  static Value f32(const Value& x) { return maximum(x, full_like(x, 0.0)); }
  static Value grad(const Value& x, const Value& g) { return where(less(full_like(x, 0.0), x), g, full_like(g, 0.0)); }
};

}  // namespace

/// max(x, 0) of each element; its gradient at 0 is 0. f32, bf16 or f16 of any shape; the same type back.
/// @api Value relu(const Value& x);
Value relu(const Value& x) {
  return apply1("relu", {x});
}

ISOTONE_OP(relu, Relu);

}  // namespace isotone::ops
