// Shares rows and spans of elementwise_fused.h out over the threads.
#include "backends/cpu/kernels/elementwise_fused.h"

#include <cstddef>

#include "backends/cpu/kernels/elementwise_fused_table.h"
#include "base/error.h"
#include "base/kernel_log.h"
#include "base/parallel.h"

namespace isotone::cpu {
namespace {

constexpr std::int64_t kGrain = 16384;  // elements worth a hand-over

int type_index(DType t, const char* kernel) {
  require(is_float(t), "{} takes f32, bf16 or f16, not {}", kernel, dtype_name(t));
  log_kernel(kernel);
  return static_cast<int>(t);
}

const void* at(DType t, const void* p, std::int64_t elements) {
  return static_cast<const std::byte*>(p) + static_cast<std::ptrdiff_t>(unit_bytes(t)) * elements;
}
void* at(DType t, void* p, std::int64_t elements) {
  return static_cast<std::byte*>(p) + static_cast<std::ptrdiff_t>(unit_bytes(t)) * elements;
}

/// Rows of n in pieces of kGrain: body(row, begin, length).
template <class Body>
void for_pieces(std::int64_t rows, std::int64_t n, const Body& body) {
  const std::int64_t pieces = (n + kGrain - 1) / kGrain;
  const std::int64_t grain = n >= kGrain || n == 0 ? 1 : kGrain / n;
  parallel_for(rows * pieces, grain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t from = i % pieces * kGrain;
      body(i / pieces, from, n - from < kGrain ? n - from : kGrain);
    }
  });
}

}  // namespace

void rope(DType t, void* y, const void* x, const float* cos, const float* sin, std::int64_t rows, std::int64_t heads,
          std::int64_t d, std::int64_t x_stride, std::int64_t y_stride, bool negate_sin) {
  require(d % 2 == 0, "rope needs an even head width, got {}", d);
  const auto f = elementwise_fused_table().rope[type_index(t, "rope")];
  const std::int64_t width = heads * d;
  parallel_for(rows, width >= kGrain || width == 0 ? 1 : kGrain / width,
               [&](std::int64_t begin, std::int64_t end, int) {
                 for (std::int64_t row = begin; row < end; ++row) {
                   f(at(t, y, row * y_stride), at(t, x, row * x_stride), cos + row * (d / 2), sin + row * (d / 2),
                     heads, d, negate_sin);
                 }
               });
}

void swiglu(DType t, void* y, const void* gate, const void* up, std::int64_t rows, std::int64_t n,
            std::int64_t y_stride, std::int64_t gate_stride, std::int64_t up_stride) {
  const auto f = elementwise_fused_table().swiglu[type_index(t, "swiglu")];
  for_pieces(rows, n, [&](std::int64_t row, std::int64_t from, std::int64_t length) {
    f(at(t, y, row * y_stride + from), at(t, gate, row * gate_stride + from), at(t, up, row * up_stride + from),
      length);
  });
}

void swiglu_grad(DType t, void* dgate, void* dup, const void* gate, const void* up, const void* dy, std::int64_t rows,
                 std::int64_t n, std::int64_t d_stride, std::int64_t gate_stride, std::int64_t up_stride,
                 std::int64_t dy_stride) {
  const auto f = elementwise_fused_table().swiglu_grad[type_index(t, "swiglu_grad")];
  for_pieces(rows, n, [&](std::int64_t row, std::int64_t from, std::int64_t length) {
    f(at(t, dgate, row * d_stride + from), at(t, dup, row * d_stride + from), at(t, gate, row * gate_stride + from),
      at(t, up, row * up_stride + from), at(t, dy, row * dy_stride + from), length);
  });
}

void adamw(float* p, float* m, float* v, const float* g, const AdamwStep& step, std::int64_t n, bf16* copy) {
  log_kernel("adamw");
  const auto f = elementwise_fused_table().adamw;
  for_pieces(1, n, [&](std::int64_t, std::int64_t from, std::int64_t length) {
    f(p + from, m + from, v + from, g + from, step, length, copy == nullptr ? nullptr : copy + from);
  });
}

}  // namespace isotone::cpu
