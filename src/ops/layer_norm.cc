// Layer normalisation (Ba et al., 2016).
#include "ops/support/rows.h"
#include "ops/support/shard.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct LayerNorm : GradientOfDecomposition {
  static constexpr std::string_view name = "layer_norm";
  static Types infer(const InTypes& in, const Attrs&) {
    require(in.size() == 3, "layer_norm: takes a tensor, a weight and a bias, got {} inputs", in.size());
    require_rows(name, in[0]);
    for (int i = 1; i <= 2; ++i) {
      require_float(name, in[i]);
      require(in[i].rank() == 1 && in[i].shape[0] == in[0].shape.back(),
              "layer_norm: {} does not fit the last axis of {}", ir::to_string(in[i]), ir::to_string(in[0]));
    }
    return {in[0]};
  }
  static Values decompose(const Values& in, const Attrs& a) {
    const Value x = as_f32(in[0]);
    const Value n = constant(row_length(x));
    const Value c = sub(x, div(row_sum(x), n));
    const Value r = rsqrt(add(div(row_sum(mul(c, c)), n), constant(a.real("eps"))));
    return {cast(add(mul(mul(c, r), as_f32(in[1])), as_f32(in[2])), in[0].dtype())};
  }
  static ShardRule shard(const InTypes& in, const Types& out, const Attrs&) { return rows_rule(in, out, "rtt", "r"); }
  static std::vector<Sample> samples() {
    std::vector<Sample> out;
    for (const DType t : {DType::f32, DType::bf16}) {
      for (const Shape& s : {Shape{3, 33}, Shape{2, 576}}) {
        out.push_back({{{{t, s}}, {{DType::f32, {s.back()}}, 0.5, 1.5}, {{DType::f32, {s.back()}}}},
                       {{"eps", 1e-5}},
                       t == DType::f32 && s.back() < 100});
      }
    }
    return out;
  }
};

}  // namespace

/// ((x - mean) / sqrt(var + eps)) * weight + bias along the last axis; f32 inside, rounded once to x's dtype.
/// @api Value layer_norm(const Value& x, const Value& weight, const Value& bias, double eps);
Value layer_norm(const Value& x, const Value& weight, const Value& bias, double eps) {
  return apply1("layer_norm", {x, weight, bias}, {{"eps", eps}});
}

ISOTONE_OP(layer_norm, LayerNorm);

}  // namespace isotone::ops
