// a - b.
#include "ops/support/elementwise.h"

namespace isotone::ops {
namespace {

struct Sub : Binary<Sub> {
  static constexpr std::string_view name = "sub";
  static float f(float a, float b) { return a - b; }
  static Values grads(const Value& a, const Value& b, const Value& y, const Value& g) {
    static_cast<void>(a);
    static_cast<void>(b);
    static_cast<void>(y);
    return {g, neg(g)};
  }
};

}  // namespace

/// a - b. Both of one float dtype; shapes broadcast.
/// @api Value sub(const Value& a, const Value& b);
Value sub(const Value& a, const Value& b) {
  return apply1("sub", {a, b});
}

ISOTONE_OP(sub, Sub);

}  // namespace isotone::ops
