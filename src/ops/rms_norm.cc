// Root-mean-square normalisation (Zhang and Sennrich, 2019).
#include "ops/support/rows.h"
#include "ops/support/shard.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct RmsNorm {
  static constexpr std::string_view name = "rms_norm";
  static Types infer(const InTypes& in, const Attrs&) {
    require(in.size() == 2, "rms_norm: takes a tensor and a weight, got {} inputs", in.size());
    require_rows(name, in[0]);
    require_float(name, in[1]);
    require(in[1].rank() == 1 && in[1].shape[0] == in[0].shape.back(),
            "rms_norm: weight {} does not fit the last axis of {}", ir::to_string(in[1]), ir::to_string(in[0]));
    return {in[0]};
  }
  static Values decompose(const Values& in, const Attrs& a) {
    const Value x = as_f32(in[0]);
    return {cast(mul(mul(x, rms_scale(x, a.real("eps"))), as_f32(in[1])), in[0].dtype())};
  }
  static Values vjp(const VjpCall& c) {
    const Value& x = c.inputs[0];
    const Value g = cast(c.cotangents[0], x.dtype());
    const Values d = rms_norm_grad(x, c.inputs[1], g, c.attrs.real("eps"));
    Value dw;
    if (c.wanted[1]) {
      // [grain, token]: all axes before the token axis count as grains.
      const std::int64_t n = x.dim(-1), tokens = x.rank() >= 2 ? x.dim(-2) : 1;
      dw = contract(reshape(g, {-1, tokens, n}), reshape(d[1], {-1, tokens, n}), "gti,gti->i", DType::f32);
    }
    return {d[0], dw};
  }
  static ShardRule shard(const InTypes& in, const Types& out, const Attrs&) { return rows_rule(in, out, "rt", "r"); }
  static std::vector<Sample> samples() {
    std::vector<Sample> out;
    for (const DType t : {DType::f32, DType::bf16}) {
      for (const Shape& s : {Shape{3, 33}, Shape{2, 3, 8}, Shape{2, 576}, Shape{1, 1000}}) {
        out.push_back(
            {{{{t, s}}, {{DType::f32, {s.back()}}, 0.5, 1.5}}, {{"eps", 1e-5}}, t == DType::f32 && s.back() < 100});
      }
    }
    return out;
  }
};

}  // namespace

/// (x / sqrt(mean(x*x) + eps)) * weight along the last axis; x float, weight any float dtype [n]; f32 inside, rounded
/// once. The weight's gradient is f32.
/// @api Value rms_norm(const Value& x, const Value& weight, double eps);
Value rms_norm(const Value& x, const Value& weight, double eps) {
  return apply1("rms_norm", {x, weight}, {{"eps", eps}});
}

ISOTONE_OP(rms_norm, RmsNorm);

}  // namespace isotone::ops
