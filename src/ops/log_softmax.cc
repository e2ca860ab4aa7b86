// log(softmax(x)) along the last axis.
#include "ops/support/rows.h"
#include "ops/support/shard.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct LogSoftmax {
  static constexpr std::string_view name = "log_softmax";
  static Types infer(const InTypes& in, const Attrs&) {
    require(in.size() == 1, "log_softmax: takes one tensor, got {}", in.size());
    require_rows(name, in[0]);
    return {in[0]};
  }
  static Values decompose(const Values& in, const Attrs&) {
    const Value x = as_f32(in[0]);
    const Value centred = sub(x, row_max(x));
    return {cast(sub(centred, log(row_sum(exp(centred)))), in[0].dtype())};
  }
  static Values vjp(const VjpCall& c) {
    const Value g = as_f32(c.cotangents[0]);
    return {cast(sub(g, mul(exp(as_f32(c.outputs[0])), row_sum(g))), c.inputs[0].dtype())};
  }
  static ShardRule shard(const InTypes& in, const Types& out, const Attrs&) { return rows_rule(in, out, "r", "r"); }
  static std::vector<Sample> samples() { return row_samples(1); }
};

}  // namespace

/// (x - max) - log(sum(exp(x - max))) along the last axis; floats; f32 inside, rounded once.
/// @api Value log_softmax(const Value& x);
Value log_softmax(const Value& x) {
  return apply1("log_softmax", {x});
}

ISOTONE_OP(log_softmax, LogSoftmax);

}  // namespace isotone::ops
