// Scaled dot-product attention (Vaswani et al., 2017; blocks as in Dao et al., 2022), with document masks, grouped
// heads and windows.
#include <cmath>
#include "ops/functions.h"

#include "ops/support/attention.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct AttentionOp {
  static constexpr std::string_view name = "attention";
  static Types infer(const InTypes& in, const Attrs& a) {
    require(in.size() == 4, "attention: takes q, k, v and optional document starts, got {} inputs", in.size());
    check_attention(name, in, a);
    Shape rows = in[0].shape;
    rows.pop_back();
    return {in[0], {DType::f32, rows}};
  }
  static Values vjp(const VjpCall& c) {
    require(!c.cotangents[1], "attention: no gradient through the second output (logsumexp)");
    Values in = c.inputs;
    in.push_back(c.outputs[0]);
    in.push_back(c.outputs[1]);
    in.push_back(cast(c.cotangents[0], c.inputs[0].dtype()));
    Values g = apply("attention_grad", in, c.attrs);
    g.emplace_back();
    return g;
  }
  static void reference(const ReferenceCall& c) {
    const AttentionInput q = input_of(c.inputs[0]), k = input_of(c.inputs[1]), v = input_of(c.inputs[2]);
    attention_forward_reference(
        {shape_of(c), q, k, v, output_of(c.outputs[0]), static_cast<float*>(c.outputs[1].data)});
  }
  static ShardRule shard(const InTypes& in, const Types&, const Attrs&) {
    return heads_rule(in, {{"g.H.", "g.h.", "g.h.", "g."}, {"g.H.", "g.H"}});
  }
  static std::vector<Sample> samples() { return attention_samples(0); }
};

}  // namespace

/// {o, logsumexp}: q [grain, token, head, width], k and v [grain, token, kv_head, width] of one float dtype; o like q,
/// logsumexp f32 [grain, token, head]. doc_start (optional) i32 [grain, token]: where each token's document starts. A
/// key j is seen by a query i of its document if (not causal or j <= i) and (window = 0 or i - j < window).
/// @api Values attention(const Value& q, const Value& k, const Value& v, const Value& doc_start, double scale, bool
/// causal = true, std::int64_t window = 0);
Values attention(const Value& q, const Value& k, const Value& v, const Value& doc_start, double scale, bool causal,
                 std::int64_t window) {
  return apply("attention", {q, k, v, doc_start},
               {{"scale", scale}, {"causal", std::int64_t{causal}}, {"window", window}});
}

ISOTONE_OP(attention, AttentionOp);

}  // namespace isotone::ops
