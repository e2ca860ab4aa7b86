// How a list of tensors is cut among ranks, and how the pieces travel: as packs.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/reduction_tree.h"

namespace isotone::dist {

/// The elements of each tensor of a list, wherever they lie.
using ConstPieces = std::vector<std::span<const float>>;
using Pieces = std::vector<std::span<float>>;

/// Rank r of n owns elements [length r / n, length (r + 1) / n) of every tensor, so that ranks own as much of each
/// layer. A rank's slices of all tensors, one after another, are its *pack*.
class SliceLayout {
 public:
  SliceLayout(std::vector<std::int64_t> lengths, int ranks);

  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] std::size_t tensors() const { return lengths_.size(); }
  /// Of all tensors together.
  [[nodiscard]] std::int64_t elements() const { return elements_; }
  [[nodiscard]] Span slice(std::size_t tensor, int rank) const;
  /// Where the slice of a tensor lies in the rank's pack.
  [[nodiscard]] Span in_pack(std::size_t tensor, int rank) const;
  /// Elements of a rank's pack.
  [[nodiscard]] std::int64_t pack_elements(int rank) const { return starts_[row(rank) + tensors()]; }

  /// Copies elements `part` of a rank's pack out of the tensors, or into them.
  void pack(const ConstPieces& tensors, int rank, Span part, float* to) const;
  void unpack(const float* from, int rank, Span part, const Pieces& tensors) const;

 private:
  [[nodiscard]] std::size_t row(int rank) const { return static_cast<std::size_t>(rank) * (tensors() + 1); }
  /// Calls `each(tensor, first element there, first element of the part, count)` for the slices that `part` touches.
  void for_slices(int rank, Span part,
                  const std::function<void(std::size_t, std::int64_t, std::int64_t, std::int64_t)>& each) const;
  void check(std::size_t given, int rank, Span part) const;

  std::vector<std::int64_t> lengths_;
  int ranks_;
  std::int64_t elements_ = 0;
  std::vector<std::int64_t> starts_;  // [rank, tensor]: where its slice begins in the pack; a last one for the end
};

}  // namespace isotone::dist
