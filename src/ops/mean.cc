// The mean over axes.
#include "ops/support/reduction.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct Mean : GradientOfDecomposition {
  static constexpr std::string_view name = "mean";
  static Types infer(const InTypes& in, const Attrs& a) { return infer_reduction(name, in, a); }
  static Values decompose(const Values& in, const Attrs& a) {
    const Value x = cast(in[0], DType::f32);
    const Ints axes = normal_axes(a.ints("axes"), x.rank(), name);
    const bool keep = a.flag("keep_dims");
    double n = 1;
    for (const std::int64_t i : axes) {
      n *= static_cast<double>(x.shape()[static_cast<std::size_t>(i)]);
    }
    return {cast(div(sum(x, axes, keep), full({}, n)), in[0].dtype())};
  }
  static ShardRule shard(const InTypes& in, const Types&, const Attrs& a) { return reduction_rule(name, in, a, false); }
  static std::vector<Sample> samples() { return reduction_samples(); }
};

}  // namespace

/// The sum over `axes` (all where empty) divided by the number of elements; f32 inside, rounded once.
/// @api Value mean(const Value& x, Ints axes = {}, bool keep_dims = false);
Value mean(const Value& x, Ints axes, bool keep_dims) {
  return apply1("mean", {x}, reduction_attrs(normal_axes(axes, x.rank(), "mean"), keep_dims));
}

ISOTONE_OP(mean, Mean);

}  // namespace isotone::ops
