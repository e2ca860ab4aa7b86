// The rows of norm.h for one vector type V and one storage type T: exactly section 12's sequences of roundings.
#pragma once

#include "backends/cpu/kernels/norm_table.h"
#include "backends/cpu/kernels/vec.h"

namespace isotone::cpu {

template <class V, class T>
ISOTONE_INLINE float sum_of_squares(const T* x, std::int64_t n) {
  return plain_sum<V>(n, [x](std::int64_t i, auto lanes) {
    const V v = read<V>(x + i, lanes);
    return v * v;
  });
}

/// 1 / sqrt(sum / n + eps).
ISOTONE_INLINE float reciprocal_deviation(float sum, std::int64_t n, float eps) {
  return 1.0F / __builtin_sqrtf(sum / static_cast<float>(n) + eps);
}

template <class V, class T>
void rms_norm_rows(void* yv, const void* xv, const float* w, float eps, std::int64_t rows, std::int64_t n) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* x = static_cast<const T*>(xv) + row * n;
    T* y = static_cast<T*>(yv) + row * n;
    const V r(reciprocal_deviation(sum_of_squares<V>(x, n), n, eps));
    for_lanes(n, [&](std::int64_t i, auto lanes) {
      write(y + i, (read<V>(x + i, lanes) * r) * read<V>(w + i, lanes), lanes);
    });
  }
}

template <class V, class T>
void rms_statistics_rows(float* r, const void* xv, float eps, std::int64_t rows, std::int64_t n) {
  for (std::int64_t row = 0; row < rows; ++row) {
    r[row] = reciprocal_deviation(sum_of_squares<V>(static_cast<const T*>(xv) + row * n, n), n, eps);
  }
}

template <class V, class T>
void rms_norm_grad_rows(void* dxv, void* hv, const void* xv, const float* w, const void* dyv, float eps,
                        std::int64_t rows, std::int64_t n) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* x = static_cast<const T*>(xv) + row * n;
    const T* dy = static_cast<const T*>(dyv) + row * n;
    T* dx = static_cast<T*>(dxv) + row * n;
    T* h = hv == nullptr ? nullptr : static_cast<T*>(hv) + row * n;
    const float r1 = reciprocal_deviation(sum_of_squares<V>(x, n), n, eps);
    const float s = plain_sum<V>(n, [&](std::int64_t i, auto lanes) {
      return (read<V>(dy + i, lanes) * read<V>(w + i, lanes)) * read<V>(x + i, lanes);
    });
    const V r(r1);
    const V c((s / static_cast<float>(n)) * ((r1 * r1) * r1));
    for_lanes(n, [&](std::int64_t i, auto lanes) {
      const V v = read<V>(x + i, lanes);
      const V g = read<V>(dy + i, lanes) * read<V>(w + i, lanes);
      write(dx + i, g * r - v * c, lanes);
      if (h != nullptr) {
        write(h + i, v * r, lanes);
      }
    });
  }
}

template <class V, class T>
void layer_norm_rows(void* yv, const void* xv, const float* w, const float* b, float eps, std::int64_t rows,
                     std::int64_t n) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* x = static_cast<const T*>(xv) + row * n;
    T* y = static_cast<T*>(yv) + row * n;
    const float mu1 =
        plain_sum<V>(n, [x](std::int64_t i, auto lanes) { return read<V>(x + i, lanes); }) / static_cast<float>(n);
    const V mu(mu1);
    // Missing lanes read the mean itself, so that their term is +0.
    const float s = plain_sum<V>(n, [&](std::int64_t i, auto lanes) {
      const V c = read<V>(x + i, lanes, mu1) - mu;
      return c * c;
    });
    const V r(reciprocal_deviation(s, n, eps));
    for_lanes(n, [&](std::int64_t i, auto lanes) {
      const V c = read<V>(x + i, lanes) - mu;
      write(y + i, ((c * r) * read<V>(w + i, lanes)) + read<V>(b + i, lanes), lanes);
    });
  }
}

/// sum of exp(x - m); where `e` is not null the terms are kept there.
template <class V, class T, bool kKeep>
ISOTONE_INLINE float sum_of_exp(const T* x, std::int64_t n, float m1, float* e) {
  const V m(m1);
  return plain_sum<V>(n, [&](std::int64_t i, auto lanes) {
    const V v = fmath::exp_v(read<V>(x + i, lanes, -__builtin_inff()) - m);
    if constexpr (kKeep) {
      if constexpr (decltype(lanes)::kFull) {
        v.store(e + i);
      } else {
        put_n(e + i, v, lanes);
      }
    }
    return v;
  });
}

template <class V, class T>
void softmax_rows(void* yv, const void* xv, float* scratch, std::int64_t rows, std::int64_t n) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* x = static_cast<const T*>(xv) + row * n;
    T* y = static_cast<T*>(yv) + row * n;
    const V l(sum_of_exp<V, T, true>(x, n, row_max<V>(x, n), scratch));
    for_lanes(n, [&](std::int64_t i, auto lanes) { write(y + i, read<V>(scratch + i, lanes) / l, lanes); });
  }
}

template <class V, class T>
void log_softmax_rows(void* yv, const void* xv, float*, std::int64_t rows, std::int64_t n) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* x = static_cast<const T*>(xv) + row * n;
    T* y = static_cast<T*>(yv) + row * n;
    const float m1 = row_max<V>(x, n);
    const V m(m1);
    const V l(log_one(sum_of_exp<V, T, false>(x, n, m1, nullptr)));
    for_lanes(n, [&](std::int64_t i, auto lanes) { write(y + i, (read<V>(x + i, lanes) - m) - l, lanes); });
  }
}

template <class V, class T>
void softmax_grad_rows(void* dxv, const void* yv, const void* dyv, std::int64_t rows, std::int64_t n) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* y = static_cast<const T*>(yv) + row * n;
    const T* dy = static_cast<const T*>(dyv) + row * n;
    T* dx = static_cast<T*>(dxv) + row * n;
    const V s(
        plain_sum<V>(n, [&](std::int64_t i, auto lanes) { return read<V>(dy + i, lanes) * read<V>(y + i, lanes); }));
    for_lanes(n, [&](std::int64_t i, auto lanes) {
      write(dx + i, read<V>(y + i, lanes) * (read<V>(dy + i, lanes) - s), lanes);
    });
  }
}

struct LogSum {
  float shift;  ///< the row's maximum, or 0 where every x is -inf
  float log;    ///< log(sum of exp(x - shift))
  float whole;  ///< shift + log, or -inf
};

template <class V, class T>
ISOTONE_INLINE LogSum row_logsumexp(const T* x, std::int64_t n) {
  const float m = row_max<V>(x, n);
  if (m == -__builtin_inff()) {
    return {0.0F, m, m};
  }
  const float log = log_one(sum_of_exp<V, T, false>(x, n, m, nullptr));
  return {m, log, canonical(fmath::F1(m + log)).v};
}

template <class V, class T>
void cross_entropy_rows(float* loss, float* lse, const void* logits, const std::int32_t* targets, std::int64_t rows,
                        std::int64_t n) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* x = static_cast<const T*>(logits) + row * n;
    const LogSum sum = row_logsumexp<V>(x, n);
    lse[row] = sum.whole;
    if (loss != nullptr) {
      float chosen[16];
      const std::int32_t target = targets[row];
      if (target >= 0) {
        get_n<V>(x + target, 1).store(chosen);
      }
      loss[row] = target < 0 ? 0.0F : canonical(fmath::F1(sum.log - (chosen[0] - sum.shift))).v;
    }
  }
}

template <class V, class T>
void cross_entropy_grad_rows(void* dv, const void* logits, const float* lse, const std::int32_t* targets,
                             const float* dloss, std::int64_t rows, std::int64_t n) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* x = static_cast<const T*>(logits) + row * n;
    T* d = static_cast<T*>(dv) + row * n;
    const std::int64_t target = targets[row];
    if (target < 0) {
      for_lanes(n, [&](std::int64_t i, auto lanes) { write(d + i, V(0.0F), lanes); });
      continue;
    }
    const V l(lse[row]);
    const V scale(dloss[row]);
    // The target's own element is read first, because `d` may be `x`; subtracting +0 elsewhere changes nothing.
    const V own = ((fmath::exp_v(get_n<V>(x + target, 1) - l)) - V(1.0F)) * scale;
    for_lanes(
        n, [&](std::int64_t i, auto lanes) { write(d + i, fmath::exp_v(read<V>(x + i, lanes) - l) * scale, lanes); });
    put_n(d + target, own, 1);
  }
}

template <class V>
constexpr NormTable make_norm_table() {
#define ISOTONE_EACH_TYPE(f) \
  { f<V, float>, f<V, bf16>, f<V, f16> }
  return {ISOTONE_EACH_TYPE(rms_norm_rows),          ISOTONE_EACH_TYPE(rms_norm_grad_rows),
          ISOTONE_EACH_TYPE(rms_statistics_rows),    ISOTONE_EACH_TYPE(layer_norm_rows),
          ISOTONE_EACH_TYPE(softmax_rows),           ISOTONE_EACH_TYPE(log_softmax_rows),
          ISOTONE_EACH_TYPE(softmax_grad_rows),      ISOTONE_EACH_TYPE(cross_entropy_rows),
          ISOTONE_EACH_TYPE(cross_entropy_grad_rows)};
#undef ISOTONE_EACH_TYPE
}

}  // namespace isotone::cpu
