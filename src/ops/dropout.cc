// Random zeros in training (Srivastava et al., 2014).
#include "ops/support/rows.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct Dropout : GradientOfDecomposition, NeverCut {
  static constexpr std::string_view name = "dropout";
  static Types infer(const InTypes& in, const Attrs& a) {
    require(in.size() == 2, "dropout: takes a tensor and the step, got {} inputs", in.size());
    require(in[1] == (Type{DType::i64, {}}), "dropout: the step must be an i64 scalar, got {}", ir::to_string(in[1]));
    require_float(name, in[0]);
    require(a.real("rate") >= 0.0 && a.real("rate") < 1.0, "dropout: rate {} is outside [0, 1)", a.real("rate"));
    static_cast<void>(a.integer("seed"));
    static_cast<void>(a.text("key"));
    return {in[0]};
  }
  static Values decompose(const Values& in, const Attrs& a) {
    const double keep = 1.0 - a.real("rate");
    const Value on = random_bernoulli(in[1], in[0].shape(), keep, a.integer("seed"), a.text("key"));
    const Value kept = div(as_f32(in[0]), constant(keep));
    return {cast(where(on, kept, constant(0.0)), in[0].dtype())};
  }
  static std::vector<Sample> samples() {
    return {{{{{DType::f32, {4, 33}}}, {{DType::i64, {}}, 0, 9}},
             {{"rate", 0.25}, {"seed", std::int64_t{7}}, {"key", std::string("drop")}}},
            {{{{DType::bf16, {4, 33}}}, {{DType::i64, {}}, 0, 9}},
             {{"rate", 0.0}, {"seed", std::int64_t{7}}, {"key", std::string("drop")}},
             false}};
  }
};

}  // namespace

/// x / (1 - rate) where a random bit keeps it, else 0. The bits are a function of (seed, key, step, coordinates): `key`
/// names the layer, step is an i64 scalar.
/// @api Value dropout(const Value& x, const Value& step, double rate, std::int64_t seed, const std::string& key);
Value dropout(const Value& x, const Value& step, double rate, std::int64_t seed, const std::string& key) {
  return apply1("dropout", {x, step}, {{"rate", rate}, {"seed", seed}, {"key", key}});
}

ISOTONE_OP(dropout, Dropout);

}  // namespace isotone::ops
