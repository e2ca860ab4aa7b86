// Normalisation and softmax over the last dimension, forward and backward, with the statistics of cross-entropy.
// Orders of rounding: docs/numerics.md, section 12. Rows are contiguous, of `n` elements, shared out over the threads.
// `t` is f32, bf16 or f16 and holds for every void*. Inputs and outputs may be the same buffer, not overlap otherwise.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace isotone::cpu {

/// y = (x * r) * w. x, y [rows, n]; w [n], of type `t` too.
void rms_norm(DType t, void* y, const void* x, const void* w, float eps, std::int64_t rows, std::int64_t n);

/// dx [rows, n] of x's type, and h = x*r rounded to x's type ([rows, n]; null where it is not wanted), from which the
/// gradient of w is a contraction with dy.
void rms_norm_grad(DType t, void* dx, void* h, const void* x, const void* w, const void* dy, float eps,
                   std::int64_t rows, std::int64_t n);

/// y = ((c * r) * w) + b with w, b [n].
void layer_norm(DType t, void* y, const void* x, const void* w, const void* b, float eps, std::int64_t rows,
                std::int64_t n);

/// The rows' reciprocal deviations and, where `mean` is not null, means, in f32: what gradients of norms are made of.
void rms_statistics(DType t, float* r, const void* x, float eps, std::int64_t rows, std::int64_t n);

void softmax(DType t, void* y, const void* x, std::int64_t rows, std::int64_t n);
void log_softmax(DType t, void* y, const void* x, std::int64_t rows, std::int64_t n);
/// dx = y * (dy - sum(dy * y)).
void softmax_grad(DType t, void* dx, const void* y, const void* dy, std::int64_t rows, std::int64_t n);

/// lse [rows] and, where not null, loss [rows], in f32. Targets are class numbers below n; a negative one is masked:
/// its loss is +0 (its lse is still written).
void cross_entropy(DType t, float* loss, float* lse, const void* logits, const std::int32_t* targets, std::int64_t rows,
                   std::int64_t n);

/// dlogits = (exp(x - lse) - [i = target]) * dloss[row], +0 for masked rows; may overwrite `logits` in place.
void cross_entropy_grad(DType t, void* dlogits, const void* logits, const float* lse, const std::int32_t* targets,
                        const float* dloss, std::int64_t rows, std::int64_t n);

}  // namespace isotone::cpu
