// Joins of the workers' values whose order does not show: the largest, the smallest, the one that is there.
#include "ops/support/collective.h"

namespace isotone::ops {
namespace {

struct JoinAllReduce : Collective<JoinAllReduce> {
  static constexpr std::string_view name = "join_all_reduce";
  static Types infer(const InTypes& in, const Attrs& a) {
    require(in.size() == 1, "join_all_reduce: takes one tensor, got {}", in.size());
    check_group(name, a);
    const auto join = static_cast<Join>(a.integer("join"));
    require(join == Join::maximum || join == Join::minimum || join == Join::select,
            "join_all_reduce: joins by maximum, minimum or select");
    require(join == Join::select || is_float(in[0].dtype), "join_all_reduce: {} has no order here",
            ir::to_string(in[0]));
    return {in[0]};
  }
  static void reference(const ReferenceCall& c) { run_or_copy(name, c); }
  static std::vector<Sample> samples() {
    Attrs attrs = lone_group();
    attrs.set("join", static_cast<std::int64_t>(Join::maximum));
    return {{{{{DType::f32, {3, 5}}}}, attrs, false}};
  }
};

}  // namespace

/// Element by element over the workers of the group: the largest or smallest (NaN where there is one; zeros are +0 as
/// max() leaves them), or the only one whose bits are not zero.
/// @api Value join_all_reduce(const Value& x, Join join, Ints group, std::int64_t me, std::int64_t tag);
Value join_all_reduce(const Value& x, Join join, Ints group, std::int64_t me, std::int64_t tag) {
  return apply1("join_all_reduce", {x},
                {{"group", std::move(group)}, {"me", me}, {"tag", tag}, {"join", static_cast<std::int64_t>(join)}});
}

ISOTONE_OP(join_all_reduce, JoinAllReduce);

}  // namespace isotone::ops
