// The trees of the numerics contract (docs/numerics.md, section 2), as plain functions over index ranges.
// Everything that reduces an axis, in references and in kernels, takes its order from here.
#pragma once

#include <bit>
#include <cstdint>

namespace isotone {

inline constexpr int kNumericsVersion = 1;
/// Longest leaf of an axis tree, in elements.
inline constexpr std::int64_t kLeaf = 256;
/// A part is cut at its middle rounded up to a multiple of this.
inline constexpr std::int64_t kLeafAlign = 32;
/// Chains of a plain reduction's leaf.
inline constexpr int kChains = 16;
/// Keys and queries in a block of attention.
inline constexpr std::int64_t kAttentionBlock = 64;

/// Where the axis tree cuts a part of `n` elements (n > kLeaf): the length of the left part.
constexpr std::int64_t axis_cut(std::int64_t n) {
  const std::int64_t middle = (n + 1) / 2;
  return (middle + kLeafAlign - 1) / kLeafAlign * kLeafAlign;
}

/// Reduces [begin, begin+n) by the axis tree: `leaf(begin, n)` gives a leaf's value, `add(left, right)` joins.
template <class Leaf, class Add>
auto axis_tree(std::int64_t begin, std::int64_t n, const Leaf& leaf, const Add& add) -> decltype(leaf(begin, n)) {
  if (n <= kLeaf) {
    return leaf(begin, n);
  }
  const std::int64_t left = axis_cut(n);
  auto l = axis_tree(begin, left, leaf, add);
  auto r = axis_tree(begin + left, n - left, leaf, add);
  return add(l, r);
}

/// Reduces items [begin, begin+n), n >= 1, by the element tree: the first ceil(n/2), then the rest, left plus right.
template <class Item, class Add>
auto element_tree(std::int64_t begin, std::int64_t n, const Item& item, const Add& add) -> decltype(item(begin)) {
  if (n == 1) {
    return item(begin);
  }
  const std::int64_t left = (n + 1) / 2;
  auto l = element_tree(begin, left, item, add);
  auto r = element_tree(begin + left, n - left, item, add);
  return add(l, r);
}

/// Reduces items [first, last), 0 <= first < last, by the prefix form: the balanced tree over the next power of two at
/// or above `last`, items outside the range left out. Depends on `first` and `last` only; appending items never
/// changes a finished subtree (a binary counter).
template <class Item, class Add>
auto prefix_tree(std::int64_t first, std::int64_t last, const Item& item, const Add& add) -> decltype(item(first)) {
  struct Walk {
    const Item& item;
    const Add& add;
    std::int64_t first, last;
    auto operator()(std::int64_t begin, std::int64_t size) const -> decltype(item(begin)) {
      if (size == 1) {
        return item(begin);
      }
      const std::int64_t half = size / 2;
      if (begin + half >= last) {
        return (*this)(begin, half);
      }
      if (begin + half <= first) {
        return (*this)(begin + half, half);
      }
      auto l = (*this)(begin, half);
      auto r = (*this)(begin + half, half);
      return add(l, r);
    }
  };
  const std::int64_t size = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(last)));
  return Walk{item, add, first, last}(0, size);
}

}  // namespace isotone
