// exp(x) normalised along the last axis.
#include "ops/support/rows.h"
#include "ops/support/shard.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct Softmax {
  static constexpr std::string_view name = "softmax";
  static Types infer(const InTypes& in, const Attrs&) {
    require(in.size() == 1, "softmax: takes one tensor, got {}", in.size());
    require_rows(name, in[0]);
    return {in[0]};
  }
  static Values decompose(const Values& in, const Attrs&) {
    const Value x = as_f32(in[0]);
    const Value e = exp(sub(x, row_max(x)));
    return {cast(div(e, row_sum(e)), in[0].dtype())};
  }
  static Values vjp(const VjpCall& c) { return {softmax_grad(c.outputs[0], c.cotangents[0])}; }
  static ShardRule shard(const InTypes& in, const Types& out, const Attrs&) { return rows_rule(in, out, "r", "r"); }
  static std::vector<Sample> samples() { return row_samples(1); }
};

}  // namespace

/// exp(x - max) / sum(exp(x - max)) along `axis`; floats; f32 inside, rounded once.
/// @api Value softmax(const Value& x, std::int64_t axis = -1);
Value softmax(const Value& x, std::int64_t axis) {
  if (ir::normal_axis(axis, x.rank(), "softmax") == x.rank() - 1) {
    return apply1("softmax", {x});
  }
  return swap_axes(apply1("softmax", {swap_axes(x, axis, -1)}), axis, -1);
}

ISOTONE_OP(softmax, Softmax);

}  // namespace isotone::ops
