#include "train/parts.h"

#include <algorithm>

#include "base/error.h"

namespace isotone::train {

namespace {

/// Calls `each(first element in the whole, first in the part, count)` for every run of neighbours.
template <class Each>
void for_runs(const ir::Shape& whole, const std::vector<Span>& part, const Each& each) {
  require(part.size() == whole.size(), "a part of {} dimensions of a tensor of {}", part.size(), whole.size());
  if (whole.empty()) {
    each(0, 0, 1);
    return;
  }
  const std::size_t last = whole.size() - 1;
  std::int64_t runs = 1;
  for (std::size_t d = 0; d < last; ++d) {
    runs *= part[d].size();
  }
  const std::int64_t width = part[last].size();
  for (std::int64_t r = 0; width > 0 && r < runs; ++r) {
    std::int64_t at = part[last].begin, stride = whole[last], rest = r;
    for (std::size_t d = last; d-- > 0;) {
      at += (part[d].begin + rest % part[d].size()) * stride;
      stride *= whole[d];
      rest /= part[d].size();
    }
    each(at, r * width, width);
  }
}

}  // namespace

std::vector<Span> part_ranges(const ir::Shape& whole, const ir::Placement& placement,
                              const std::vector<int>& coordinates) {
  std::vector<Span> out;
  for (const std::int64_t n : whole) {
    out.push_back({0, n});
  }
  for (std::size_t a = 0; a < placement.size(); ++a) {
    if (placement[a].cut()) {
      out.at(static_cast<std::size_t>(placement[a].dim)) = placement[a].part(coordinates[a]);
    }
  }
  return out;
}

void copy_part_out(const ir::Shape& whole, const std::vector<Span>& part, const float* from, float* to) {
  for_runs(whole, part,
           [&](std::int64_t there, std::int64_t here, std::int64_t n) { std::copy_n(from + there, n, to + here); });
}

void copy_part_in(const ir::Shape& whole, const std::vector<Span>& part, const float* from, float* to) {
  for_runs(whole, part,
           [&](std::int64_t there, std::int64_t here, std::int64_t n) { std::copy_n(from + here, n, to + there); });
}

}  // namespace isotone::train
