// a < b, element by element.
#include "ops/support/elementwise.h"

namespace isotone::ops {
namespace {

struct Less : Comparison<Less> {
  static constexpr std::string_view name = "less";
  template <class T>
  static bool f(T a, T b) {
    return a < b;
  }
};

}  // namespace

/// a < b, element by element. Both of one dtype; shapes broadcast; bool back. NaN compares false.
/// @api Value less(const Value& a, const Value& b);
/// a > b.
/// @api Value greater(const Value& a, const Value& b);
Value less(const Value& a, const Value& b) {
  return apply1("less", {a, b});
}
Value greater(const Value& a, const Value& b) {
  return less(b, a);
}

ISOTONE_OP(less, Less);

}  // namespace isotone::ops
