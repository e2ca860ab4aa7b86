// a <= b, element by element.
#include "ops/support/elementwise.h"

namespace isotone::ops {
namespace {

struct LessEqual : Comparison<LessEqual> {
  static constexpr std::string_view name = "less_equal";
  template <class T>
  static bool f(T a, T b) {
    return a <= b;
  }
};

}  // namespace

/// a <= b, element by element. Both of one dtype; shapes broadcast; bool back. NaN compares false.
/// @api Value less_equal(const Value& a, const Value& b);
/// a >= b.
/// @api Value greater_equal(const Value& a, const Value& b);
Value less_equal(const Value& a, const Value& b) {
  return apply1("less_equal", {a, b});
}
Value greater_equal(const Value& a, const Value& b) {
  return less_equal(b, a);
}

ISOTONE_OP(less_equal, LessEqual);

}  // namespace isotone::ops
