// The whole of a tensor from the workers' parts.
#include "ops/support/attributes.h"
#include "ops/support/collective.h"

namespace isotone::ops {
namespace {

struct AllGather : Collective<AllGather> {
  static constexpr std::string_view name = "all_gather";
  static Types infer(const InTypes& in, const Attrs& a) {
    require(in.size() == 1, "all_gather: takes one tensor, got {}", in.size());
    check_group(name, a);
    const auto dim = static_cast<std::size_t>(ir::normal_axis(a.integer("dim"), in[0].rank(), name));
    const Ints& borders = a.ints("borders");
    const auto me = static_cast<std::size_t>(a.integer("me"));
    check_borders(name, a, "borders");
    require(in[0].shape[dim] == borders[me + 1] - borders[me],
            "all_gather: worker {}'s part of dimension {} is [{}, {}), but its tensor is {}", me, dim, borders[me],
            borders[me + 1], ir::to_string(in[0]));
    Type out = in[0];
    out.shape[dim] = borders.back();
    require_sizes(name, out.shape);
    require(!is_quantised(in[0].dtype) || dim + 1 < out.shape.size(), "all_gather: rows of quantised {} stay whole",
            ir::to_string(in[0]));
    return {out};
  }
  static void reference(const ReferenceCall& c) { run_or_copy(name, c); }
  static std::vector<Sample> samples() {
    Attrs attrs = lone_group();
    attrs.set("dim", std::int64_t{1});
    attrs.set("borders", Ints{0, 5});
    return {{{{{DType::f32, {3, 5}}}}, attrs, false}, {{{{DType::bf16, {3, 5}}}}, attrs, false}};
  }
};

}  // namespace

/// x [..., mine, ...] of every worker side by side along `dim`; worker i has [borders[i], borders[i + 1]). Any dtype.
/// @api Value all_gather(const Value& x, std::int64_t dim, Ints borders, Ints group, std::int64_t me, std::int64_t
/// tag);
Value all_gather(const Value& x, std::int64_t dim, Ints borders, Ints group, std::int64_t me, std::int64_t tag) {
  return apply1("all_gather", {x},
                {{"group", std::move(group)}, {"me", me}, {"tag", tag}, {"dim", dim}, {"borders", std::move(borders)}});
}

ISOTONE_OP(all_gather, AllGather);

}  // namespace isotone::ops
