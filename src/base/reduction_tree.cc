#include "base/reduction_tree.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "base/tree.h"

namespace isotone {
namespace {

void collect_borders(const ReductionTree& tree, Span node, std::vector<std::int64_t>& out) {
  if (tree.is_leaf(node)) {
    out.push_back(node.end);
    return;
  }
  const auto [left, right] = tree.children(node);
  collect_borders(tree, left, out);
  collect_borders(tree, right, out);
}

void collect_cover(const ReductionTree& tree, Span node, Span part, std::vector<Span>& out) {
  if (part.begin <= node.begin && node.end <= part.end) {
    out.push_back(node);
    return;
  }
  if (node.end <= part.begin || part.end <= node.begin) {
    return;
  }
  const auto [left, right] = tree.children(node);
  collect_cover(tree, left, part, out);
  collect_cover(tree, right, part, out);
}

/// The border nearest to numerator / denominator, the lower one where two are as near.
std::int64_t nearest(const std::vector<std::int64_t>& borders, std::int64_t numerator, std::int64_t denominator) {
  return *std::min_element(borders.begin(), borders.end(), [&](std::int64_t a, std::int64_t b) {
    return std::abs(a * denominator - numerator) < std::abs(b * denominator - numerator);
  });
}

}  // namespace

ReductionTree::ReductionTree(TreeKind kind, std::int64_t length) : kind_(kind), length_(length) {
  require(length >= 1 && length <= (std::int64_t{1} << 40), "reduction tree: an axis of {} items cannot be reduced",
          length);
}

bool ReductionTree::is_leaf(Span node) const {
  return node.size() <= (kind_ == TreeKind::axis ? kLeaf : 1);
}

std::pair<Span, Span> ReductionTree::children(Span node) const {
  std::int64_t left = 0;
  switch (kind_) {
    case TreeKind::axis:
      left = axis_cut(node.size());
      break;
    case TreeKind::element:
      left = (node.size() + 1) / 2;
      break;
    case TreeKind::prefix:
      // The full subtrees of a prefix begin at multiples of their size; the left part is the largest of them.
      left = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(node.size()))) / 2;
      break;
  }
  return {{node.begin, node.begin + left}, {node.begin + left, node.end}};
}

std::vector<std::int64_t> ReductionTree::borders() const {
  std::vector<std::int64_t> out{0};
  collect_borders(*this, root(), out);
  return out;
}

std::vector<Span> ReductionTree::cover(Span part) const {
  require(0 <= part.begin && part.begin <= part.end && part.end <= length_, "{}: no part [{}, {})", describe(),
          part.begin, part.end);
  if (part.empty()) {
    return {};
  }
  const std::vector<std::int64_t> all = borders();
  for (const std::int64_t cut : {part.begin, part.end}) {
    const auto next = std::lower_bound(all.begin(), all.end(), cut);
    require(*next == cut,
            "{}: cannot be cut at {}, which would change the order of its sum; the nearest cuts are {} and {}",
            describe(), cut, *(next - 1), *next);
  }
  std::vector<Span> out;
  collect_cover(*this, root(), part, out);
  return out;
}

std::vector<Span> ReductionTree::split(int ranks) const {
  require(ranks >= 1, "{}: cannot be split among {} ranks", describe(), ranks);
  std::vector<Span> out;
  if (kind_ == TreeKind::element) {
    for (std::int64_t r = 0; r < ranks; ++r) {
      out.push_back({length_ * r / ranks, length_ * (r + 1) / ranks});
    }
    return out;
  }
  const std::vector<std::int64_t> all = borders();
  const auto leaves = static_cast<std::int64_t>(all.size()) - 1;
  require(ranks <= leaves, "{}: has {} leaves and cannot be split among {} ranks; at most {} fit", describe(), leaves,
          ranks, leaves);
  std::vector<std::int64_t> cuts{0};
  for (std::int64_t r = 1; r < ranks; ++r) {
    // Nearest to even, but each rank must get a leaf and leave one for every rank after it.
    const auto after = std::upper_bound(all.begin(), all.end(), cuts.back());
    const std::vector<std::int64_t> free(after, all.end() - (ranks - r));
    cuts.push_back(nearest(free, length_ * r, ranks));
  }
  cuts.push_back(length_);
  for (std::size_t r = 0; r + 1 < cuts.size(); ++r) {
    out.push_back({cuts[r], cuts[r + 1]});
  }
  return out;
}

std::string ReductionTree::describe() const {
  const char* name = kind_ == TreeKind::axis ? "axis" : kind_ == TreeKind::element ? "element" : "prefix";
  return fmt::format("{} tree of {}", name, length_);
}

}  // namespace isotone
