// Elements picked and added by index along an axis. Indices are checked here, before any thread starts.
#pragma once

#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace isotone::cpu {

/// A tensor [outer, n, inner] indexed along its middle axis by [outer, picks, inner].
struct IndexedAxis {
  std::int64_t outer = 1, n = 1, picks = 1, inner = 1;
};

/// y[o, i, j] = x[o, indices[o, i, j], j], contiguous, elements of `unit` bytes. Throws Error for an index outside
/// [0, n).
void gather(const IndexedAxis& s, std::size_t unit, void* y, const void* x, std::span<const std::int32_t> indices);

/// y = x plus the updates by index: in f32 the axis tree over a row's updates, those of other indices +0; inner is 1.
/// Throws Error for an index outside [0, n).
void scatter_add(const IndexedAxis& s, float* y, const float* x, std::span<const std::int32_t> indices,
                 const float* updates);

}  // namespace isotone::cpu
