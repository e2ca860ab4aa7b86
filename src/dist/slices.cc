#include "dist/slices.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace isotone::dist {

SliceLayout::SliceLayout(std::vector<std::int64_t> lengths, int ranks) : lengths_(std::move(lengths)), ranks_(ranks) {
  require(ranks >= 1, "slices: tensors cannot be cut among {} ranks", ranks);
  for (const std::int64_t n : lengths_) {
    require(n >= 0 && n <= (std::int64_t{1} << 46), "slices: a tensor of {} elements", n);
    elements_ += n;
  }
  starts_.reserve(row(ranks));
  for (int r = 0; r < ranks; ++r) {
    std::int64_t at = 0;
    for (std::size_t t = 0; t < tensors(); ++t) {
      starts_.push_back(at);
      at += slice(t, r).size();
    }
    starts_.push_back(at);
  }
}

Span SliceLayout::slice(std::size_t tensor, int rank) const {
  const std::int64_t n = lengths_[tensor];
  return {n * rank / ranks_, n * (rank + 1) / ranks_};
}

Span SliceLayout::in_pack(std::size_t tensor, int rank) const {
  return {starts_[row(rank) + tensor], starts_[row(rank) + tensor + 1]};
}

void SliceLayout::check(std::size_t given, int rank, Span part) const {
  require(given == tensors(), "slices: {} tensors given, {} are cut", given, tensors());
  require(rank >= 0 && rank < ranks_ && part.begin >= 0 && part.begin <= part.end && part.end <= pack_elements(rank),
          "slices: no part [{}, {}) in the pack of rank {} of {}", part.begin, part.end, rank, ranks_);
}

void SliceLayout::for_slices(
    int rank, Span part, const std::function<void(std::size_t, std::int64_t, std::int64_t, std::int64_t)>& each) const {
  const auto first = starts_.begin() + static_cast<std::ptrdiff_t>(row(rank));
  const auto last = first + static_cast<std::ptrdiff_t>(tensors());
  // The last slice that begins at or before the part; empty slices begin where the next one does.
  auto at = std::upper_bound(first, last, part.begin);
  for (at -= at == first ? 0 : 1; at != last && *at < part.end; ++at) {
    const auto tensor = static_cast<std::size_t>(at - first);
    const std::int64_t begin = std::max(*at, part.begin), end = std::min(*(at + 1), part.end);
    if (begin < end) {
      each(tensor, slice(tensor, rank).begin + begin - *at, begin - part.begin, end - begin);
    }
  }
}

void SliceLayout::pack(const ConstPieces& tensors, int rank, Span part, float* to) const {
  check(tensors.size(), rank, part);
  for_slices(rank, part, [&](std::size_t t, std::int64_t in_tensor, std::int64_t in_part, std::int64_t n) {
    std::memcpy(to + in_part, tensors[t].data() + in_tensor, static_cast<std::size_t>(n) * sizeof(float));
  });
}

void SliceLayout::unpack(const float* from, int rank, Span part, const Pieces& tensors) const {
  check(tensors.size(), rank, part);
  for_slices(rank, part, [&](std::size_t t, std::int64_t in_tensor, std::int64_t in_part, std::int64_t n) {
    std::memcpy(tensors[t].data() + in_tensor, from + in_part, static_cast<std::size_t>(n) * sizeof(float));
  });
}

}  // namespace isotone::dist
