// a == b, element by element.
#include "ops/support/elementwise.h"

namespace isotone::ops {
namespace {

struct Equal : Comparison<Equal> {
  static constexpr std::string_view name = "equal";
  template <class T>
  static bool f(T a, T b) {
    return a == b;
  }
};

}  // namespace

/// a == b, element by element. Both of one dtype; shapes broadcast; bool back. NaN compares false.
/// @api Value equal(const Value& a, const Value& b);
/// a != b; true where either is NaN.
/// @api Value not_equal(const Value& a, const Value& b);
Value equal(const Value& a, const Value& b) {
  return apply1("equal", {a, b});
}
Value not_equal(const Value& a, const Value& b) {
  return logical_not(equal(a, b));
}

ISOTONE_OP(equal, Equal);

}  // namespace isotone::ops
