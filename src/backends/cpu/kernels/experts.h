// Rows times the matrices of their experts: rows are gathered by expert, and each expert's go through contract().
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/dtype.h"

namespace isotone::cpu {

/// The rows of each list, ascending: those of list l are rows[begin[l] .. begin[l + 1]).
struct RowLists {
  std::vector<std::int64_t> begin;
  std::vector<std::int64_t> rows;
  [[nodiscard]] std::int64_t count(std::int64_t list) const {
    const auto l = static_cast<std::size_t>(list);
    return begin[l + 1] - begin[l];
  }
};

/// Lists by expert and, within an expert, by grain: list `expert * grains + grain`. Rows with the id -1 are in none.
/// Throws Error naming `op` for other ids outside [0, experts).
RowLists rows_by_expert(std::string_view op, std::span<const std::int32_t> ids, std::int64_t experts,
                        std::int64_t grains);

/// Rows of `width` elements that lie side by side, row i at data + offsets[i] elements.
struct StridedRows {
  const void* data = nullptr;
  std::span<const std::int64_t> offsets;
  std::int64_t width = 0;
  DType dtype = DType::f32;
};

/// Copies the listed rows one after another to `to`.
void gather_rows(const StridedRows& from, std::span<const std::int64_t> rows, std::byte* to);

class PackedWeight;

/// The experts' matrices: element (expert, row, k) at data[expert * expert_stride + row * row_stride + k * k_stride].
struct ExpertWeights {
  const void* data = nullptr;
  std::int64_t experts = 0, n = 0, k = 0;
  std::int64_t expert_stride = 0, row_stride = 0, k_stride = 1;
  /// An expert's matrix packed, where they are constant; else empty.
  std::function<const PackedWeight&(std::int64_t expert)> packed = {};
};

/// y[i] = matrix of row i's expert times x[i], y contiguous [rows, n]; +0 where there is none. `lists` has one grain.
/// Scratch: `gathered` rows * k and `made` rows * n elements of x's dtype.
void expert_linear(const StridedRows& x, const ExpertWeights& w, const RowLists& lists, std::byte* y,
                   std::byte* gathered, std::byte* made);

/// dw[expert] = sum over the expert's rows of dy times x, f32 [experts, n, k]: per grain the axis tree, over the grains
/// the element tree. Scratch: `x_rows` and `dy_rows` as many elements as x and dy have, `nodes` n * k floats for each
/// level of the tree (tree_levels).
void expert_linear_grad(const StridedRows& x, const StridedRows& dy, const RowLists& lists, std::int64_t experts,
                        std::int64_t grains, float* dw, std::byte* x_rows, std::byte* dy_rows, float* nodes);

/// Levels of the element tree over `grains`.
int tree_levels(std::int64_t grains);

}  // namespace isotone::cpu
