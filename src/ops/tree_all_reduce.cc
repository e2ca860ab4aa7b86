// A sum of which the workers have nodes of the tree.
#include "ops/support/collective_tree.h"

namespace isotone::ops {
namespace {

struct TreeAllReduce : Collective<TreeAllReduce> {
  static constexpr std::string_view name = "tree_all_reduce";
  static Types infer(const InTypes& in, const Attrs& a) {
    check_tree(name, in, a);
    return {{DType::f32, a.ints("shape")}};
  }
  static void reference(const ReferenceCall& c) { group_size(c.attrs) > 1 ? run_collective(name, c) : join_alone(c); }
  static std::vector<Sample> samples() { return {{{{{DType::f32, {3, 5}}}}, lone_tree(576, {3, 5}), false}}; }
};

}  // namespace

/// The root of the reduction tree that `attrs` describes, on every worker of the group, from the values of the nodes
/// that each of them has (f32 of "shape"; none, one or several).
/// @api Value tree_all_reduce(Values nodes, Attrs attrs);
Value tree_all_reduce(Values nodes, Attrs attrs) {
  return apply1("tree_all_reduce", std::move(nodes), std::move(attrs));
}

ISOTONE_OP(tree_all_reduce, TreeAllReduce);

}  // namespace isotone::ops
