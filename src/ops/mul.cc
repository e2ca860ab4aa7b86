// a * b.
#include "ops/support/elementwise.h"

namespace isotone::ops {
namespace {

struct Mul : Binary<Mul> {
  static constexpr std::string_view name = "mul";
  static float f(float a, float b) { return a * b; }
  static Values grads(const Value& a, const Value& b, const Value& y, const Value& g) {
    static_cast<void>(a);
    static_cast<void>(b);
    static_cast<void>(y);
    return {mul(g, b), mul(g, a)};
  }
};

}  // namespace

/// a * b. Both of one float dtype; shapes broadcast.
/// @api Value mul(const Value& a, const Value& b);
Value mul(const Value& a, const Value& b) {
  return apply1("mul", {a, b});
}

ISOTONE_OP(mul, Mul);

}  // namespace isotone::ops
