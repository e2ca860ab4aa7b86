// Results of nodes of one tree that wait for their siblings.
#pragma once

#include <map>
#include <utility>

#include "base/error.h"
#include "base/reduction_tree.h"

namespace isotone {

/// Values of disjoint nodes of `tree`. Two siblings become their parent as soon as both are there, left joined with
/// right.
template <class T>
class Partials {
 public:
  explicit Partials(const ReductionTree& tree) : tree_(tree) {}

  void add(Span node, T value) {
    const auto fresh = nodes_.emplace(node, std::move(value)).second;
    require(fresh, "{}: node [{}, {}) came twice", tree_.describe(), node.begin, node.end);
  }

  /// Joins every pair of siblings: `join(left, right)` gives the parent's value.
  template <class Join>
  void merge(const Join& join) {
    merge_below(tree_.root(), join);
  }

  [[nodiscard]] bool whole() const { return nodes_.size() == 1 && nodes_.begin()->first == tree_.root(); }
  /// The value of the whole axis.
  [[nodiscard]] const T& root() const {
    require(whole(), "{}: {} nodes are not joined; a part of the axis is missing", tree_.describe(), nodes_.size());
    return nodes_.begin()->second;
  }
  [[nodiscard]] const std::map<Span, T>& nodes() const { return nodes_; }
  void clear() { nodes_.clear(); }

 private:
  /// Whether `node` itself is present afterwards.
  template <class Join>
  bool merge_below(Span node, const Join& join) {
    if (nodes_.contains(node)) {
      return true;
    }
    const auto first = nodes_.lower_bound(Span{node.begin, node.begin});
    if (tree_.is_leaf(node) || first == nodes_.end() || first->first.begin >= node.end) {
      return false;
    }
    const auto [left, right] = tree_.children(node);
    const bool has_left = merge_below(left, join), has_right = merge_below(right, join);
    if (!has_left || !has_right) {
      return false;
    }
    auto l = nodes_.extract(left), r = nodes_.extract(right);
    nodes_.emplace(node, join(std::move(l.mapped()), std::move(r.mapped())));
    return true;
  }

  ReductionTree tree_;
  std::map<Span, T> nodes_;
};

}  // namespace isotone
