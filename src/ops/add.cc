// a + b.
#include "ops/support/elementwise.h"

namespace isotone::ops {
namespace {

struct Add : Binary<Add> {
  static constexpr std::string_view name = "add";
  static float f(float a, float b) { return a + b; }
  static Values grads(const Value& a, const Value& b, const Value& y, const Value& g) {
    static_cast<void>(a);
    static_cast<void>(b);
    static_cast<void>(y);
    return {g, g};
  }
};

}  // namespace

/// a + b. Both of one float dtype; shapes broadcast.
/// @api Value add(const Value& a, const Value& b);
Value add(const Value& a, const Value& b) {
  return apply1("add", {a, b});
}

ISOTONE_OP(add, Add);

}  // namespace isotone::ops
