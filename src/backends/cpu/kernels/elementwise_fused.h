// Rotary embedding, SwiGLU and AdamW: fused elementwise kernels with the roundings of docs/numerics.md, section 12.
// `t` is f32, bf16 or f16 and holds for every void*; strides count elements.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "base/half.h"

namespace isotone::cpu {

/// y [rows, heads, d] from x; cos and sin [rows, d/2] in f32. Rows of x and y are `x_stride` and `y_stride` apart,
/// heads are d apart. y may be x. The gradient is the same with `negate_sin`.
void rope(DType t, void* y, const void* x, const float* cos, const float* sin, std::int64_t rows, std::int64_t heads,
          std::int64_t d, std::int64_t x_stride, std::int64_t y_stride, bool negate_sin = false);

/// y = silu(gate) * up, rows of n with the given distances.
void swiglu(DType t, void* y, const void* gate, const void* up, std::int64_t rows, std::int64_t n,
            std::int64_t y_stride, std::int64_t gate_stride, std::int64_t up_stride);

/// dgate and dup (rows `d_stride` apart) of swiglu; they may overwrite gate and up.
void swiglu_grad(DType t, void* dgate, void* dup, const void* gate, const void* up, const void* dy, std::int64_t rows,
                 std::int64_t n, std::int64_t d_stride, std::int64_t gate_stride, std::int64_t up_stride,
                 std::int64_t dy_stride);

/// One step's scalars: c1 = 1/(1-b1^t) and c2 = 1/(1-b2^t) from f64, rounded to f32; `clip` multiplies the gradient.
struct AdamwStep {
  float lr, b1, b2, eps, wd, c1, c2, clip;
};
/// Updates p, m, v in place from g (all f32, n elements). `copy`, if not null, gets the new p rounded to bf16.
void adamw(float* p, float* m, float* v, const float* g, const AdamwStep& step, std::int64_t n, bf16* copy = nullptr);

}  // namespace isotone::cpu
