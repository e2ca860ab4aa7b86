#include "backends/cpu/kernels/experts.h"

#include <bit>
#include <cstring>

#include "backends/cpu/kernels/contract.h"
#include "base/error.h"
#include "base/kernel_log.h"
#include "base/parallel.h"

namespace isotone::cpu {
namespace {

constexpr std::int64_t kCopyBytes = 1 << 16;  // worth a hand-over to another thread

std::int64_t rows_worth(std::int64_t row_bytes) {
  return std::max<std::int64_t>(1, kCopyBytes / std::max<std::int64_t>(1, row_bytes));
}

/// The gradient of one expert over a node of the tree over grains.
struct GrainTree {
  const RowLists& lists;
  std::int64_t first;       // list of the expert's first grain
  const std::byte *x, *dy;  // gathered rows, in the lists' order
  std::int64_t n, k;
  DType dtype;
  float* nodes;

  /// Whether any grain of the node has rows. What has none is +0, and adding it changes nothing.
  [[nodiscard]] bool any(std::int64_t begin, std::int64_t count) const {
    const auto at = static_cast<std::size_t>(first + begin);
    return lists.begin[at + static_cast<std::size_t>(count)] > lists.begin[at];
  }
  /// Writes the node's sum to `to`; `level` counts the scratch nodes in use.
  void sum(std::int64_t begin, std::int64_t count, float* to, int level) const {
    if (count == 1) {
      return leaf(first + begin, to);
    }
    const std::int64_t left = (count + 1) / 2;
    if (!any(begin, left)) {
      return sum(begin + left, count - left, to, level);
    }
    sum(begin, left, to, level);
    if (!any(begin + left, count - left)) {
      return;
    }
    float* right = nodes + level * n * k;
    sum(begin + left, count - left, right, level + 1);
    parallel_for(n * k, kCopyBytes / 4, [&](std::int64_t b, std::int64_t e, int) {
      for (std::int64_t i = b; i < e; ++i) {
        to[i] += right[i];
      }
    });
  }
  void leaf(std::int64_t list, float* to) const {
    const auto unit = static_cast<std::int64_t>(unit_bytes(dtype));
    const std::int64_t at = lists.begin[static_cast<std::size_t>(list)];
    Contraction c;
    c.m = n;
    c.n = k;
    c.k = lists.count(list);
    c.a = {dy + at * n * unit, dtype, 0, 0, 1, n};
    c.b = {x + at * k * unit, dtype, 0, 0, 1, k};
    c.c = to;
    c.c_row_stride = k;
    contract(c);
  }
};

}  // namespace

RowLists rows_by_expert(std::string_view op, std::span<const std::int32_t> ids, std::int64_t experts,
                        std::int64_t grains) {
  RowLists out;
  out.begin.assign(static_cast<std::size_t>(experts * grains + 1), 0);
  const auto count = static_cast<std::int64_t>(ids.size());
  const std::int64_t per_grain = grains == 0 ? 0 : count / grains;
  const auto list_of = [&](std::int64_t row) {
    return static_cast<std::size_t>(ids[static_cast<std::size_t>(row)] * grains + row / per_grain);
  };
  for (std::int64_t row = 0; row < count; ++row) {
    const std::int32_t id = ids[static_cast<std::size_t>(row)];
    require(id >= -1 && id < experts, "{}: expert {} is outside [-1, {})", op, id, experts);
    if (id >= 0) {
      ++out.begin[list_of(row) + 1];
    }
  }
  for (std::size_t l = 1; l < out.begin.size(); ++l) {
    out.begin[l] += out.begin[l - 1];
  }
  out.rows.resize(static_cast<std::size_t>(out.begin.back()));
  std::vector<std::int64_t> next(out.begin.begin(), out.begin.end() - 1);
  for (std::int64_t row = 0; row < count; ++row) {
    if (ids[static_cast<std::size_t>(row)] >= 0) {
      out.rows[static_cast<std::size_t>(next[list_of(row)]++)] = row;
    }
  }
  return out;
}

void gather_rows(const StridedRows& from, std::span<const std::int64_t> rows, std::byte* to) {
  const auto unit = static_cast<std::int64_t>(unit_bytes(from.dtype));
  const std::int64_t bytes = from.width * unit;
  parallel_for(static_cast<std::int64_t>(rows.size()), rows_worth(bytes), [&](std::int64_t b, std::int64_t e, int) {
    for (std::int64_t i = b; i < e; ++i) {
      const std::int64_t at = from.offsets[static_cast<std::size_t>(rows[static_cast<std::size_t>(i)])];
      std::memcpy(to + i * bytes, static_cast<const std::byte*>(from.data) + at * unit,
                  static_cast<std::size_t>(bytes));
    }
  });
}

void expert_linear(const StridedRows& x, const ExpertWeights& w, const RowLists& lists, std::byte* y,
                   std::byte* gathered, std::byte* made) {
  log_kernel("expert_linear");
  const auto unit = static_cast<std::int64_t>(unit_bytes(x.dtype));
  gather_rows(x, lists.rows, gathered);
  for (std::int64_t expert = 0; expert < w.experts; ++expert) {
    const std::int64_t at = lists.begin[static_cast<std::size_t>(expert)];
    Contraction c;
    c.m = lists.count(expert);
    c.n = w.n;
    c.k = w.k;
    c.a = {gathered + at * w.k * unit, x.dtype, 0, 0, w.k, 1};
    c.b = {static_cast<const std::byte*>(w.data) + expert * w.expert_stride * unit,
           x.dtype,
           0,
           0,
           w.row_stride,
           w.k_stride};
    c.c = made + at * w.n * unit;
    c.c_dtype = x.dtype;
    c.c_row_stride = w.n;
    if (c.m > 0 && w.packed) {
      contract_packed({c.m, c.a.data, x.dtype, w.k, 1, c.c, x.dtype, w.n, 1}, w.packed(expert));
    } else if (c.m > 0) {
      contract(c);
    }
  }
  const std::int64_t bytes = w.n * unit, all = static_cast<std::int64_t>(x.offsets.size());
  if (static_cast<std::int64_t>(lists.rows.size()) < all) {
    std::memset(y, 0, static_cast<std::size_t>(all * bytes));
  }
  parallel_for(static_cast<std::int64_t>(lists.rows.size()), rows_worth(bytes),
               [&](std::int64_t b, std::int64_t e, int) {
                 for (std::int64_t i = b; i < e; ++i) {
                   std::memcpy(y + lists.rows[static_cast<std::size_t>(i)] * bytes, made + i * bytes,
                               static_cast<std::size_t>(bytes));
                 }
               });
}

void expert_linear_grad(const StridedRows& x, const StridedRows& dy, const RowLists& lists, std::int64_t experts,
                        std::int64_t grains, float* dw, std::byte* x_rows, std::byte* dy_rows, float* nodes) {
  log_kernel("expert_linear_grad");
  gather_rows(x, lists.rows, x_rows);
  gather_rows(dy, lists.rows, dy_rows);
  const std::int64_t matrix = dy.width * x.width;
  for (std::int64_t expert = 0; expert < experts; ++expert) {
    const GrainTree tree{lists, expert * grains, x_rows, dy_rows, dy.width, x.width, x.dtype, nodes};
    if (grains > 0 && tree.any(0, grains)) {
      tree.sum(0, grains, dw + expert * matrix, 0);
    } else {
      std::memset(dw + expert * matrix, 0, static_cast<std::size_t>(matrix) * sizeof(float));
    }
  }
}

int tree_levels(std::int64_t grains) {
  return grains <= 1 ? 0 : static_cast<int>(std::bit_width(static_cast<std::uint64_t>(grains - 1)));
}

}  // namespace isotone::cpu
