// a || b, element by element.
#include "ops/support/elementwise.h"

namespace isotone::ops {
namespace {

struct LogicalOr : Logical<LogicalOr> {
  static constexpr std::string_view name = "logical_or";
  static bool f(bool a, bool b) { return a || b; }
};

}  // namespace

/// a || b, element by element. Both bool; shapes broadcast.
/// @api Value logical_or(const Value& a, const Value& b);
Value logical_or(const Value& a, const Value& b) {
  return apply1("logical_or", {a, b});
}

ISOTONE_OP(logical_or, LogicalOr);

}  // namespace isotone::ops
