// Limits each element to a range.
#include "ops/functions.h"
#include "ops/support/shard.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct Clamp : Elementwise {
  static constexpr std::string_view name = "clamp";
  static Types infer(const InTypes& in, const Attrs& a) {
    require(in.size() == 1, "clamp: takes one tensor, got {}", in.size());
    require_float(name, in[0]);
    require(a.real("low") <= a.real("high"), "clamp: low {} is above high {}", a.real("low"), a.real("high"));
    return {in[0]};
  }
  static Values decompose(const Values& in, const Attrs& a) {
    return {minimum(maximum(in[0], full_like(in[0], a.real("low"))), full_like(in[0], a.real("high")))};
  }
  static Values vjp(const VjpCall& c) {
    const Value& x = c.inputs[0];
    const Value inside = logical_and(less_equal(full_like(x, c.attrs.real("low")), x),
                                     less_equal(x, full_like(x, c.attrs.real("high"))));
    return {where(inside, c.cotangents[0], full_like(c.cotangents[0], 0.0))};
  }
  static std::vector<Sample> samples() {
    return {{{{{DType::f32, {5, 33}}}}, {{"low", -0.7}, {"high", 1.1}}},
            {{{{DType::bf16, {65}}}}, {{"low", -0.5}, {"high", 0.5}}, false}};
  }
};

}  // namespace

/// min(max(x, low), high) of each element; floats of any shape. The gradient is passed inside the closed range.
/// @api Value clamp(const Value& x, double low, double high);
Value clamp(const Value& x, double low, double high) {
  return apply1("clamp", {x}, {{"low", low}, {"high", high}});
}

ISOTONE_OP(clamp, Clamp);

}  // namespace isotone::ops
