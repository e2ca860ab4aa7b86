// log(sum(exp(x))) over axes, without overflow.
#include "ops/support/reduction.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct Logsumexp : GradientOfDecomposition {
  static constexpr std::string_view name = "logsumexp";
  static Types infer(const InTypes& in, const Attrs& a) { return infer_reduction(name, in, a); }
  static Values decompose(const Values& in, const Attrs& a) {
    const Value x = cast(in[0], DType::f32);
    const Ints axes = normal_axes(a.ints("axes"), x.rank(), name);
    const bool keep = a.flag("keep_dims");
    const Value m = stop_gradient(max(x, axes, true));
    const Value empty = equal(m, full({}, -std::numeric_limits<double>::infinity()));
    const Value l = sum(exp(sub(x, where(empty, full({}, 0.0), m))), axes, true);
    const Value out = where(empty, m, add(m, log(l)));
    return {cast(reshape(out, reduced_shape(x.shape(), axes, keep)), in[0].dtype())};
  }
  static ShardRule shard(const InTypes& in, const Types&, const Attrs& a) { return reduction_rule(name, in, a, false); }
  static std::vector<Sample> samples() { return reduction_samples(); }
};

}  // namespace

/// max + log(sum(exp(x - max))) over `axes` (all where empty); -infinity where all are; f32 inside, rounded once.
/// @api Value logsumexp(const Value& x, Ints axes = {}, bool keep_dims = false);
Value logsumexp(const Value& x, Ints axes, bool keep_dims) {
  return apply1("logsumexp", {x}, reduction_attrs(normal_axes(axes, x.rank(), "logsumexp"), keep_dims));
}

ISOTONE_OP(logsumexp, Logsumexp);

}  // namespace isotone::ops
