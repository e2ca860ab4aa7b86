// The negation of each element.
#include "ops/functions.h"
#include "ops/support/shard.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct LogicalNot : NoGradient<LogicalNot>, Elementwise {
  static constexpr std::string_view name = "logical_not";
  static Types infer(const InTypes& in, const Attrs&) {
    require(in.size() == 1, "logical_not: takes one tensor, got {}", in.size());
    require(in[0].dtype == DType::boolean, "logical_not: takes bool, got {}; compare or cast() first",
            ir::to_string(in[0]));
    return {in[0]};
  }
  static void reference(const ReferenceCall& c) {
    for (std::int64_t i = 0; i < c.outputs[0].elements(); ++i) {
      c.outputs[0].set_int(i, c.inputs[0].get_int(i) == 0 ? 1 : 0);
    }
  }
  static std::vector<Sample> samples() { return {{{{{DType::boolean, {3, 33}}, 0, 2}}, {}, false}}; }
};

}  // namespace

/// not x, element by element, of a bool tensor.
/// @api Value logical_not(const Value& x);
Value logical_not(const Value& x) {
  return apply1("logical_not", {x});
}

ISOTONE_OP(logical_not, LogicalNot);

}  // namespace isotone::ops
