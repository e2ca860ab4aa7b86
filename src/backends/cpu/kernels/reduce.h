// Reductions over one axis, in the plain-reduction order of docs/numerics.md section 2 whatever the axis' place, and
// the scans and sorts beside them. Tensors are contiguous and seen as [outer, n, inner] with the axis in the middle.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace isotone::cpu {

enum class ReduceOp { sum, mean, max, min, var, logsumexp };
inline constexpr int kReduceOps = 6;

/// y [outer, inner] of type `to` from x of type `from` (each of f32, bf16, f16), computed in f32 and rounded once. max
/// and min are NaN where there is one and give +0 for a zero of either sign; over nothing sum is +0, max -infinity, min
/// +infinity, the others NaN (logsumexp -infinity). var divides by n.
void reduce(ReduceOp op, DType to, void* y, DType from, const void* x, std::int64_t outer, std::int64_t n,
            std::int64_t inner);

/// Position of the largest (or smallest) element along the axis: the first NaN where there is one, else the lowest of
/// equals. Any dtype that is not quantised.
void argmax(DType t, std::int32_t* y, const void* x, std::int64_t outer, std::int64_t n, std::int64_t inner);
void argmin(DType t, std::int32_t* y, const void* x, std::int64_t outer, std::int64_t n, std::int64_t inner);

/// Running sums from the left (or, reversed, from the right) in f32, each rounded once. y may be x.
void cumsum(DType t, void* y, const void* x, std::int64_t outer, std::int64_t n, std::int64_t inner,
            bool reverse = false);

/// Stable sort along the axis, NaN last: values (may be null) and positions.
void sort(DType t, void* values, std::int32_t* positions, const void* x, std::int64_t outer, std::int64_t n,
          std::int64_t inner, bool descending);

/// The k largest of each row of n, largest first, the lower position first among equals, NaN last.
void topk(DType t, void* values, std::int32_t* positions, const void* x, std::int64_t rows, std::int64_t n,
          std::int64_t k);

}  // namespace isotone::cpu
