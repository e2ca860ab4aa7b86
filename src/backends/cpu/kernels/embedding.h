// Rows of a table by number, and the gradient of that: docs/numerics.md, section 12.
#pragma once

#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace isotone::cpu {

/// The first position whose id is outside [0, vocabulary), or -1. The two functions below want none.
std::int64_t first_invalid_id(std::span<const std::int32_t> ids, std::int64_t vocabulary);

/// y [ids, n] of type `to` (f32, bf16, f16) from rows of `table` [vocabulary, n] of any float or quantised type. Equal
/// types are copied; otherwise a row is widened to f32 (q4_1: q*d, then + m, each rounded) and rounded once.
void embedding(DType to, void* y, DType from, const void* table, std::span<const std::int32_t> ids, std::int64_t n);

/// dtable [vocabulary, n] in f32, written whole, from dy [grains * tokens, n] of type `t` and ids [grains * tokens]:
/// per grain the axis tree over its token positions, whose leaves are ascending chains from +0 over the positions that
/// hold the id; over the grains the element tree.
void embedding_grad(DType t, float* dtable, const void* dy, std::span<const std::int32_t> ids, std::int64_t grains,
                    std::int64_t vocabulary, std::int64_t n);

/// Index of the first NaN or infinity among n elements of type `t` (f32, bf16, f16), or -1.
std::int64_t first_non_finite(DType t, const void* x, std::int64_t n);

}  // namespace isotone::cpu
