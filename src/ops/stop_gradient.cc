// Cuts a value off from differentiation.
#include "ops/functions.h"
#include "ops/support/shard.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct StopGradient : Elementwise {
  static constexpr std::string_view name = "stop_gradient";
  static Types infer(const InTypes& in, const Attrs&) {
    require(in.size() == 1, "stop_gradient: takes one tensor, got {}", in.size());
    return {in[0]};
  }
  static Values decompose(const Values& in, const Attrs&) { return {in[0]}; }
  static Values vjp(const VjpCall&) { return {Value()}; }
  static std::vector<Sample> samples() { return {{{{{DType::f32, {3, 4}}}}, {}, false}}; }
};

}  // namespace

/// x, with a gradient of zero.
/// @api Value stop_gradient(const Value& x);
Value stop_gradient(const Value& x) {
  return apply1("stop_gradient", {x});
}

ISOTONE_OP(stop_gradient, StopGradient);

}  // namespace isotone::ops
