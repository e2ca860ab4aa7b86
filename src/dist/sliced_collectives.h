// Sums of large tensors over ranks, of which each rank keeps or gives a slice. The order of every sum is the tree's,
// whatever the number of ranks (docs/numerics.md, section 7).
#pragma once

#include "dist/collectives.h"
#include "dist/slices.h"

namespace isotone::dist {

/// Values of all tensors at one node of this rank's part of a tree.
using NodeValues = std::function<ConstPieces(Span node)>;

/// Who owns what of `tree`: parts[r] is rank r's, neighbouring and in order.
struct TreeParts {
  ReductionTree tree;
  std::vector<Span> parts;
  TreeParts(const ReductionTree& t, int ranks) : tree(t), parts(t.split(ranks)) {}
  /// The nodes that rank r computes.
  [[nodiscard]] std::vector<Span> nodes(int rank) const { return tree.cover(parts[static_cast<std::size_t>(rank)]); }
  /// Whether ranks are 2^k, each owns one node, and neighbours are siblings all the way up.
  [[nodiscard]] bool halves() const;
};

/// The sum over the whole tree; each rank ends with its pack. `values` is called once for each node of this rank's
/// part, in order; what it gave is read until the next call, or the end. Where parts.halves(), ranks at distance 1,
/// then 2, 4, ... exchange halves of what they still hold, each time half as much; otherwise every rank hands its nodes
/// to the owners of the slices, who join siblings. Either way a rank sends each of its nodes once, less its own slice:
/// for a power of two with one node each that is the least possible.
Floats tree_reduce_scatter(Communicator& ranks, const TreeParts& parts, const SliceLayout& layout,
                           const NodeValues& values, const Site& site = Site::current());

/// Puts the ranks' packs together in `tensors` on every rank: doubling (Bruck et al., 1997), any number of ranks.
void all_gather_slices(Communicator& ranks, const SliceLayout& layout, std::span<const float> mine,
                       const Pieces& tensors, const Site& site = Site::current());

/// Both, one after the other: the sum over the whole tree in `tensors` on every rank. For large vectors; small ones and
/// joins that are no plain sum go through the tree_all_reduce() of collectives.h.
void tree_all_reduce(Communicator& ranks, const TreeParts& parts, const SliceLayout& layout, const NodeValues& values,
                     const Pieces& tensors, const Site& site = Site::current());

/// Elements that a rank sends in tree_reduce_scatter() and in all_gather_slices().
std::int64_t reduce_scatter_sends(const TreeParts& parts, const SliceLayout& layout, int rank);
std::int64_t all_gather_sends(const SliceLayout& layout, int rank);

}  // namespace isotone::dist
