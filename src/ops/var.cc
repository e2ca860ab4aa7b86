// The variance over axes.
#include "ops/support/reduction.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct Var : GradientOfDecomposition {
  static constexpr std::string_view name = "var";
  static Types infer(const InTypes& in, const Attrs& a) { return infer_reduction(name, in, a); }
  static Values decompose(const Values& in, const Attrs& a) {
    const Value x = cast(in[0], DType::f32);
    const Ints axes = normal_axes(a.ints("axes"), x.rank(), name);
    const bool keep = a.flag("keep_dims");
    double n = 1;
    for (const std::int64_t i : axes) {
      n *= static_cast<double>(x.shape()[static_cast<std::size_t>(i)]);
    }
    const Value centred = sub(x, div(sum(x, axes, true), full({}, n)));
    return {cast(div(sum(mul(centred, centred), axes, keep), full({}, n)), in[0].dtype())};
  }
  static ShardRule shard(const InTypes& in, const Types&, const Attrs& a) { return reduction_rule(name, in, a, false); }
  static std::vector<Sample> samples() { return reduction_samples(); }
};

}  // namespace

/// The mean squared distance from the mean over `axes` (divided by n, not n - 1); f32 inside, rounded once.
/// @api Value var(const Value& x, Ints axes = {}, bool keep_dims = false);
Value var(const Value& x, Ints axes, bool keep_dims) {
  return apply1("var", {x}, reduction_attrs(normal_axes(axes, x.rank(), "var"), keep_dims));
}

ISOTONE_OP(var, Var);

}  // namespace isotone::ops
