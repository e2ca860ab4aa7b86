#include "backends/cpu/kernels/indexed.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/kernel_log.h"
#include "base/parallel.h"
#include "base/tree.h"

namespace isotone::cpu {
namespace {

constexpr std::int64_t kElements = 1 << 13;  // worth a hand-over to another thread

void check(std::string_view op, std::span<const std::int32_t> indices, std::int64_t n) {
  for (const std::int32_t i : indices) {
    require(i >= 0 && i < n, "{}: index {} is outside [0, {})", op, i, n);
  }
}

/// One row's updates.
struct Updates {
  const std::int32_t* indices;
  const float* values;
  std::int64_t n;  // of the row

  /// Writes the tree's sums over updates [begin, begin + count) to `to`, n floats, and uses what lies behind them.
  void sum(std::int64_t begin, std::int64_t count, float* to) const {
    if (count <= kLeaf) {
      std::fill_n(to, n, 0.0F);
      for (std::int64_t i = begin; i < begin + count; ++i) {
        to[indices[i]] += values[i];
      }
      return;
    }
    const std::int64_t left = axis_cut(count);
    sum(begin, left, to);
    sum(begin + left, count - left, to + n);
    for (std::int64_t i = 0; i < n; ++i) {
      to[i] += to[n + i];
    }
  }
};

std::int64_t levels(std::int64_t count) {
  return count <= kLeaf ? 1 : 1 + std::max(levels(axis_cut(count)), levels(count - axis_cut(count)));
}

}  // namespace

void gather(const IndexedAxis& s, std::size_t unit, void* y, const void* x, std::span<const std::int32_t> indices) {
  log_kernel("gather");
  check("gather", indices, s.n);
  parallel_for(s.outer * s.picks, std::max<std::int64_t>(1, kElements / std::max<std::int64_t>(1, s.inner)),
               [&](std::int64_t b, std::int64_t e, int) {
                 for (std::int64_t row = b; row < e; ++row) {
                   for (std::int64_t j = 0; j < s.inner; ++j) {
                     const std::int64_t to = row * s.inner + j;
                     const std::int64_t at = indices[static_cast<std::size_t>(to)];
                     const std::int64_t from = (row / s.picks * s.n + at) * s.inner + j;
                     std::memcpy(static_cast<std::byte*>(y) + static_cast<std::size_t>(to) * unit,
                                 static_cast<const std::byte*>(x) + static_cast<std::size_t>(from) * unit, unit);
                   }
                 }
               });
}

void scatter_add(const IndexedAxis& s, float* y, const float* x, std::span<const std::int32_t> indices,
                 const float* updates) {
  log_kernel("scatter_add");
  check("scatter_add", indices, s.n);
  const auto scratch = static_cast<std::size_t>(levels(s.picks) * s.n);
  parallel_for(s.outer, std::max<std::int64_t>(1, kElements / std::max<std::int64_t>(1, s.picks + s.n)),
               [&](std::int64_t b, std::int64_t e, int) {
                 std::vector<float> sums(scratch);
                 for (std::int64_t row = b; row < e; ++row) {
                   Updates{indices.data() + row * s.picks, updates + row * s.picks, s.n}.sum(0, s.picks, sums.data());
                   for (std::int64_t i = 0; i < s.n; ++i) {
                     y[row * s.n + i] = x[row * s.n + i] + sums[static_cast<std::size_t>(i)];
                   }
                 }
               });
}

}  // namespace isotone::cpu
