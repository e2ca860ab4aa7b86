// A sum of which the workers have nodes of the tree, each worker keeping a part of it.
#include "ops/support/collective_tree.h"

namespace isotone::ops {
namespace {

struct TreeReduceScatter : Collective<TreeReduceScatter> {
  static constexpr std::string_view name = "tree_reduce_scatter";
  static Types infer(const InTypes& in, const Attrs& a) {
    check_tree(name, in, a);
    Type out{DType::f32, a.ints("shape")};
    const auto dim = static_cast<std::size_t>(ir::normal_axis(a.integer("dim"), out.rank(), name));
    const Ints& cuts = a.ints("cuts");
    check_borders(name, a, "cuts");
    require(cuts.back() == out.shape[dim], "tree_reduce_scatter: the cuts {} do not fit dimension {} of {}",
            ir::to_string(cuts), dim, ir::to_string(out));
    const auto me = static_cast<std::size_t>(a.integer("me"));
    out.shape[dim] = cuts[me + 1] - cuts[me];
    return {out};
  }
  static void reference(const ReferenceCall& c) { group_size(c.attrs) > 1 ? run_collective(name, c) : join_alone(c); }
  static std::vector<Sample> samples() {
    Attrs attrs = lone_tree(1000, {3, 5});
    attrs.set("dim", std::int64_t{0});
    attrs.set("cuts", Ints{0, 3});
    return {{{{{DType::f32, {3, 5}}}}, attrs, false}};
  }
};

}  // namespace

/// As tree_all_reduce, but worker i ends with [cuts[i], cuts[i + 1]) of dimension `dim` of the root.
/// @api Value tree_reduce_scatter(Values nodes, Attrs attrs);
Value tree_reduce_scatter(Values nodes, Attrs attrs) {
  return apply1("tree_reduce_scatter", std::move(nodes), std::move(attrs));
}

ISOTONE_OP(tree_reduce_scatter, TreeReduceScatter);

}  // namespace isotone::ops
