// The largest elements along the last axis.
#include "ops/functions.h"
#include "ops/support/shard.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct Topk : GradientOfDecomposition {
  static constexpr std::string_view name = "topk";
  static Types infer(const InTypes& in, const Attrs& a) {
    require(in.size() == 1, "topk: takes one tensor, got {}", in.size());
    require(in[0].rank() >= 1, "topk: takes a tensor of at least one axis, got {}", ir::to_string(in[0]));
    require_float(name, in[0]);
    Shape out = in[0].shape;
    require(a.integer("k") >= 1 && a.integer("k") <= out.back(), "topk: k = {} does not fit the last axis of {}",
            a.integer("k"), ir::to_string(in[0]));
    out.back() = a.integer("k");
    return {{in[0].dtype, out}, {DType::i32, out}};
  }
  static Values decompose(const Values& in, const Attrs& a) {
    const Values sorted = sort(in[0], -1, true);
    return {slice_axis(sorted[0], -1, 0, a.integer("k")), slice_axis(sorted[1], -1, 0, a.integer("k"))};
  }
  static ShardRule shard(const InTypes& in, const Types& out, const Attrs&) { return rows_rule(in, out, "r", "rr"); }
  static std::vector<Sample> samples() {
    return {{{{{DType::f32, {3, 37}}}}, {{"k", std::int64_t{5}}}},
            {{{{DType::bf16, {65}}}}, {{"k", std::int64_t{1}}}, false}};
  }
};

}  // namespace

/// {the k largest, their positions (i32)} along the last axis, largest first, the lower position first where equal; NaN
/// last.
/// @api Values topk(const Value& x, std::int64_t k);
Values topk(const Value& x, std::int64_t k) {
  return apply("topk", {x}, {{"k", k}});
}

ISOTONE_OP(topk, Topk);

}  // namespace isotone::ops
