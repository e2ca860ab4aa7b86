// Shares the rows of norm.h out over the threads and picks the instruction set.
#include "backends/cpu/kernels/norm.h"

#include <cstddef>
#include <string>
#include <vector>

#include "backends/cpu/kernels/norm_table.h"
#include "base/error.h"
#include "base/half.h"
#include "base/kernel_log.h"
#include "base/parallel.h"

namespace isotone::cpu {
namespace {

int type_index(DType t, const char* kernel) {
  require(is_float(t), "{} takes f32, bf16 or f16, not {}", kernel, dtype_name(t));
  log_kernel(kernel);
  return static_cast<int>(t);
}

/// Rows worth a hand-over: about 16 thousand elements.
std::int64_t rows_per_task(std::int64_t n) {
  return n >= 16384 ? 1 : 16384 / (n > 0 ? n : 1);
}

/// Weights widened once, which is exact: f32 ones are used where they lie.
class Widened {
 public:
  Widened(DType t, const void* w, std::int64_t n) {
    if (t == DType::f32) {
      data_ = static_cast<const float*>(w);
      return;
    }
    copy_.resize(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < copy_.size(); ++i) {
      copy_[i] = t == DType::bf16 ? static_cast<float>(static_cast<const bf16*>(w)[i])
                                  : static_cast<float>(static_cast<const f16*>(w)[i]);
    }
    data_ = copy_.data();
  }
  [[nodiscard]] const float* data() const { return data_; }

 private:
  std::vector<float> copy_;
  const float* data_ = nullptr;
};

const void* at(DType t, const void* p, std::int64_t elements) {
  return static_cast<const std::byte*>(p) + static_cast<std::ptrdiff_t>(unit_bytes(t)) * elements;
}
void* at(DType t, void* p, std::int64_t elements) {
  return p == nullptr ? nullptr : static_cast<std::byte*>(p) + static_cast<std::ptrdiff_t>(unit_bytes(t)) * elements;
}

}  // namespace

void rms_norm(DType t, void* y, const void* x, const void* w, float eps, std::int64_t rows, std::int64_t n) {
  const auto f = norm_table().rms_norm[type_index(t, "rms_norm")];
  const Widened weights(t, w, n);
  parallel_for(rows, rows_per_task(n), [&](std::int64_t begin, std::int64_t end, int) {
    f(at(t, y, begin * n), at(t, x, begin * n), weights.data(), eps, end - begin, n);
  });
}

void rms_norm_grad(DType t, void* dx, void* h, const void* x, const void* w, const void* dy, float eps,
                   std::int64_t rows, std::int64_t n) {
  const auto f = norm_table().rms_norm_grad[type_index(t, "rms_norm_grad")];
  const Widened weights(t, w, n);
  parallel_for(rows, rows_per_task(n), [&](std::int64_t begin, std::int64_t end, int) {
    f(at(t, dx, begin * n), at(t, h, begin * n), at(t, x, begin * n), weights.data(), at(t, dy, begin * n), eps,
      end - begin, n);
  });
}

void rms_statistics(DType t, float* r, const void* x, float eps, std::int64_t rows, std::int64_t n) {
  const auto f = norm_table().rms_statistics[type_index(t, "rms_statistics")];
  parallel_for(rows, rows_per_task(n), [&](std::int64_t begin, std::int64_t end, int) {
    f(r + begin, at(t, x, begin * n), eps, end - begin, n);
  });
}

void layer_norm(DType t, void* y, const void* x, const void* w, const void* b, float eps, std::int64_t rows,
                std::int64_t n) {
  const auto f = norm_table().layer_norm[type_index(t, "layer_norm")];
  const Widened weights(t, w, n);
  const Widened biases(t, b, n);
  parallel_for(rows, rows_per_task(n), [&](std::int64_t begin, std::int64_t end, int) {
    f(at(t, y, begin * n), at(t, x, begin * n), weights.data(), biases.data(), eps, end - begin, n);
  });
}

void softmax(DType t, void* y, const void* x, std::int64_t rows, std::int64_t n) {
  const auto f = norm_table().softmax[type_index(t, "softmax")];
  parallel_for(rows, rows_per_task(n), [&](std::int64_t begin, std::int64_t end, int) {
    std::vector<float> scratch(static_cast<std::size_t>(n));
    f(at(t, y, begin * n), at(t, x, begin * n), scratch.data(), end - begin, n);
  });
}

void log_softmax(DType t, void* y, const void* x, std::int64_t rows, std::int64_t n) {
  const auto f = norm_table().log_softmax[type_index(t, "log_softmax")];
  parallel_for(rows, rows_per_task(n), [&](std::int64_t begin, std::int64_t end, int) {
    f(at(t, y, begin * n), at(t, x, begin * n), nullptr, end - begin, n);
  });
}

void softmax_grad(DType t, void* dx, const void* y, const void* dy, std::int64_t rows, std::int64_t n) {
  const auto f = norm_table().softmax_grad[type_index(t, "softmax_grad")];
  parallel_for(rows, rows_per_task(n), [&](std::int64_t begin, std::int64_t end, int) {
    f(at(t, dx, begin * n), at(t, y, begin * n), at(t, dy, begin * n), end - begin, n);
  });
}

void cross_entropy(DType t, float* loss, float* lse, const void* logits, const std::int32_t* targets, std::int64_t rows,
                   std::int64_t n) {
  const auto f = norm_table().cross_entropy[type_index(t, "cross_entropy")];
  parallel_for(rows, rows_per_task(n), [&](std::int64_t begin, std::int64_t end, int) {
    f(loss == nullptr ? nullptr : loss + begin, lse + begin, at(t, logits, begin * n),
      targets == nullptr ? nullptr : targets + begin, end - begin, n);
  });
}

void cross_entropy_grad(DType t, void* dlogits, const void* logits, const float* lse, const std::int32_t* targets,
                        const float* dloss, std::int64_t rows, std::int64_t n) {
  const auto f = norm_table().cross_entropy_grad[type_index(t, "cross_entropy_grad")];
  parallel_for(rows, rows_per_task(n), [&](std::int64_t begin, std::int64_t end, int) {
    f(at(t, dlogits, begin * n), at(t, logits, begin * n), lse + begin, targets + begin, dloss + begin, end - begin, n);
  });
}

}  // namespace isotone::cpu
