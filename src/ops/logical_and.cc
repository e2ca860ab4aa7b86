// a && b, element by element.
#include "ops/support/elementwise.h"

namespace isotone::ops {
namespace {

struct LogicalAnd : Logical<LogicalAnd> {
  static constexpr std::string_view name = "logical_and";
  static bool f(bool a, bool b) { return a && b; }
};

}  // namespace

/// a && b, element by element. Both bool; shapes broadcast.
/// @api Value logical_and(const Value& a, const Value& b);
Value logical_and(const Value& a, const Value& b) {
  return apply1("logical_and", {a, b});
}

ISOTONE_OP(logical_and, LogicalAnd);

}  // namespace isotone::ops
