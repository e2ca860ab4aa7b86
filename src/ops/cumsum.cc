// Running sum along an axis.
#include "ops/support/attributes.h"
#include "ops/support/index.h"
#include "ops/support/shard.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct Cumsum : AlongAxis {
  static constexpr std::string_view name = "cumsum";
  static Types infer(const InTypes& in, const Attrs& a) {
    require(in.size() == 1, "cumsum: takes one tensor, got {}", in.size());
    require_float(name, in[0]);
    axis_attr(name, a, in[0].rank());
    static_cast<void>(a.flag("reverse"));
    return {in[0]};
  }
  static Values vjp(const VjpCall& c) {
    return {cumsum(c.cotangents[0], c.attrs.integer("axis"), !c.attrs.flag("reverse"))};
  }
  static void reference(const ReferenceCall& c) {
    const AxisSplit x(c.inputs[0].type->shape, c.attrs.integer("axis"));
    const bool reverse = c.attrs.flag("reverse");
    for (std::int64_t o = 0; o < x.outer * x.inner; ++o) {
      float sum = 0.0F;
      for (std::int64_t i = 0; i < x.n; ++i) {
        const std::int64_t at = (o / x.inner * x.n + (reverse ? x.n - 1 - i : i)) * x.inner + o % x.inner;
        sum += c.inputs[0].get(at);
        c.outputs[0].set(at, sum);
      }
    }
  }
  static std::vector<Sample> samples() {
    return {{{{{DType::f32, {3, 37}}}}, {{"axis", std::int64_t{1}}, {"reverse", std::int64_t{0}}}},
            {{{{DType::f32, {5, 4, 3}}}}, {{"axis", std::int64_t{0}}, {"reverse", std::int64_t{1}}}},
            {{{{DType::bf16, {300}}}}, {{"axis", std::int64_t{0}}, {"reverse", std::int64_t{0}}}, false}};
  }
};

}  // namespace

/// The sum of the elements up to and including each one along `axis` (from the end if `reverse`): one chain in f32 from
/// +0, each prefix rounded once. Floats.
/// @api Value cumsum(const Value& x, std::int64_t axis = -1, bool reverse = false);
Value cumsum(const Value& x, std::int64_t axis, bool reverse) {
  return apply1(
      "cumsum", {x},
      {{"axis", std::int64_t{ir::normal_axis(axis, x.rank(), "cumsum")}}, {"reverse", std::int64_t{reverse}}});
}

ISOTONE_OP(cumsum, Cumsum);

}  // namespace isotone::ops
