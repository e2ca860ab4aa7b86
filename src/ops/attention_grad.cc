// The gradients of attention.
#include <cmath>
#include "ops/functions.h"

#include "ops/support/attention.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct AttentionGrad : NoGradient<AttentionGrad> {
  static constexpr std::string_view name = "attention_grad";
  static Types infer(const InTypes& in, const Attrs& a) {
    require(in.size() == 7,
            "attention_grad: takes q, k, v, document starts, o, logsumexp and the cotangent, got {} inputs", in.size());
    check_attention(name, in, a);
    Shape rows = in[0].shape;
    rows.pop_back();
    require(in[4] == in[0] && in[6] == in[0] && in[5] == (Type{DType::f32, rows}),
            "attention_grad: o {}, logsumexp {} and cotangent {} do not fit q {}", ir::to_string(in[4]),
            ir::to_string(in[5]), ir::to_string(in[6]), ir::to_string(in[0]));
    return {in[0], in[1], in[2]};
  }
  static void reference(const ReferenceCall& c) {
    AttentionBackward b{shape_of(c),
                        input_of(c.inputs[0]),
                        input_of(c.inputs[1]),
                        input_of(c.inputs[2]),
                        input_of(c.inputs[4]),
                        input_of(c.inputs[6]),
                        static_cast<const float*>(c.inputs[5].data),
                        output_of(c.outputs[0]),
                        output_of(c.outputs[1]),
                        output_of(c.outputs[2])};
    attention_backward_reference(b);
  }
  static ShardRule shard(const InTypes& in, const Types&, const Attrs&) {
    return heads_rule(in, {{"g.H.", "g.h.", "g.h.", "g.", "g.H.", "g.H", "g.H."}, {"g.H.", "g.h.", "g.h."}});
  }
  static std::vector<Sample> samples() { return attention_samples(3); }
};

}  // namespace

/// {dq, dk, dv} of attention(), each of its input's type.
/// @api Values attention_grad(const Values& qkv_doc_o_lse_do, double scale, bool causal, std::int64_t window);
Values attention_grad(const Values& qkv_doc_o_lse_do, double scale, bool causal, std::int64_t window) {
  return apply("attention_grad", qkv_doc_o_lse_do,
               {{"scale", scale}, {"causal", std::int64_t{causal}}, {"window", window}});
}

ISOTONE_OP(attention_grad, AttentionGrad);

}  // namespace isotone::ops
