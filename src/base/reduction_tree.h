// The trees of the numerics contract as something that can be cut: ranks own neighbouring parts of an axis, and a part
// is a list of whole nodes (docs/numerics.md, section 7).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace isotone {

/// Items [begin, end) of an axis; as a node, those below it.
struct Span {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  [[nodiscard]] std::int64_t size() const { return end - begin; }
  [[nodiscard]] bool empty() const { return begin == end; }
  friend auto operator<=>(const Span&, const Span&) = default;
};

/// Which rule of section 2 (axis, element) or 5 (prefix: items are attention's blocks) makes the tree.
enum class TreeKind { axis, element, prefix };

/// The tree that reduces `length` >= 1 items.
class ReductionTree {
 public:
  ReductionTree(TreeKind kind, std::int64_t length);

  [[nodiscard]] TreeKind kind() const { return kind_; }
  [[nodiscard]] std::int64_t length() const { return length_; }
  [[nodiscard]] Span root() const { return {0, length_}; }
  [[nodiscard]] bool is_leaf(Span node) const;
  /// The two parts of a node that is no leaf, left first.
  [[nodiscard]] std::pair<Span, Span> children(Span node) const;
  /// Where the axis may be cut: 0, the end of every leaf but the last, `length`.
  [[nodiscard]] std::vector<std::int64_t> borders() const;

  /// The fewest nodes that together are `part`, in order; none for an empty part. Error, naming the nearest borders,
  /// where the part does not begin and end at borders.
  [[nodiscard]] std::vector<Span> cover(Span part) const;

  /// Neighbouring parts for `ranks` ranks, cut at the borders nearest to an even cut. Over an element tree every cut is
  /// allowed and a part may be empty (a rank without a grain); elsewhere there must be a leaf for each rank, or an
  /// Error says how many ranks fit.
  [[nodiscard]] std::vector<Span> split(int ranks) const;

  /// "axis tree of 576".
  [[nodiscard]] std::string describe() const;

 private:
  TreeKind kind_;
  std::int64_t length_;
};

}  // namespace isotone
