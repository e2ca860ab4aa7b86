// Loss of a classification against target classes.
#include "ops/support/rows.h"
#include "ops/support/shard.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct CrossEntropy {
  static constexpr std::string_view name = "cross_entropy";
  static Types infer(const InTypes& in, const Attrs&) {
    require(in.size() == 2, "cross_entropy: takes logits and targets, got {} inputs", in.size());
    require_rows(name, in[0]);
    const Shape rows(in[0].shape.begin(), in[0].shape.end() - 1);
    require(in[1].dtype == DType::i32 && in[1].shape == rows,
            "cross_entropy: targets must be i32{} for logits {}, got {}", ir::to_string(rows), ir::to_string(in[0]),
            ir::to_string(in[1]));
    return {{DType::f32, rows}, {DType::f32, rows}};
  }
  static Values decompose(const Values& in, const Attrs&) {
    const Value x = as_f32(in[0]);
    Shape column = in[1].shape();
    column.push_back(1);
    const Value target = reshape(in[1], column);
    const Value masked = less(target, full({}, 0.0, DType::i32));
    const Value m = row_max(x);
    const Value empty = equal(m, constant(-std::numeric_limits<double>::infinity()));
    const Value shift = where(empty, constant(0.0), m);
    const Value l = log(row_sum(exp(sub(x, shift))));
    const Value lse = where(empty, m, add(m, l));
    const Value picked = gather(x, where(masked, full({}, 0.0, DType::i32), target), -1);
    // -log_softmax to the bit, which is what servers report; lse - picked would lose digits where the loss is small.
    const Value loss = where(masked, constant(0.0), sub(l, sub(picked, shift)));
    return {reshape(loss, in[1].shape()), reshape(lse, in[1].shape())};
  }
  static Values vjp(const VjpCall& c) {
    require(!c.cotangents[1],
            "cross_entropy: no gradient through the second output (logsumexp); use logsumexp() for that");
    return {cross_entropy_grad(c.inputs[0], c.outputs[1], c.inputs[1], c.cotangents[0]), Value()};
  }
  static ShardRule shard(const InTypes& in, const Types& out, const Attrs&) { return rows_rule(in, out, "rv", "vv"); }
  static std::vector<Sample> samples() {
    std::vector<Sample> out;
    for (const DType t : {DType::f32, DType::bf16}) {
      out.push_back({{{{t, {3, 4, 11}}}, {{DType::i32, {3, 4}}, -1, 11}}, {}, t == DType::f32});
      out.push_back({{{{t, {5, 1000}}}, {{DType::i32, {5}}, -1, 1000}}, {}, false});
    }
    return out;
  }
};

}  // namespace

/// {loss, logsumexp}, both f32 without the last axis: -log_softmax(logits)[target]. logits float [..., classes],
/// targets i32; a target below 0 is masked: loss +0, no gradient.
/// @api Values cross_entropy(const Value& logits, const Value& targets);
Values cross_entropy(const Value& logits, const Value& targets) {
  return apply("cross_entropy", {logits, targets});
}

ISOTONE_OP(cross_entropy, CrossEntropy);

}  // namespace isotone::ops
