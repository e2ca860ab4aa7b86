// The kernels of elementwise_fused.h over one vector type.
#pragma once

#include "backends/cpu/kernels/elementwise_fused_table.h"
#include "backends/cpu/kernels/vec.h"

namespace isotone::cpu {

template <class V>
ISOTONE_INLINE V negated(V x) {
  return V::from_bits(bits(x) ^ typename V::I(static_cast<std::int32_t>(0x80000000U)));
}

/// One row's heads.
template <class V, class T>
void rope_row(void* yv, const void* xv, const float* cos, const float* sin, std::int64_t heads, std::int64_t d,
              bool negate_sin) {
  const std::int64_t half = d / 2;
  const typename V::I flip(negate_sin ? static_cast<std::int32_t>(0x80000000U) : 0);
  for (std::int64_t head = 0; head < heads; ++head) {
    const T* x = static_cast<const T*>(xv) + head * d;
    T* y = static_cast<T*>(yv) + head * d;
    for_lanes(half, [&](std::int64_t i, auto lanes) {
      const V c = read<V>(cos + i, lanes);
      const V s = V::from_bits(bits(read<V>(sin + i, lanes)) ^ flip);
      const V x1 = read<V>(x + i, lanes);
      const V x2 = read<V>(x + half + i, lanes);
      write(y + i, x1 * c - x2 * s, lanes);
      write(y + half + i, x2 * c + x1 * s, lanes);
    });
  }
}

template <class V, class T>
void swiglu_row(void* yv, const void* gatev, const void* upv, std::int64_t n) {
  const T* gate = static_cast<const T*>(gatev);
  const T* up = static_cast<const T*>(upv);
  T* y = static_cast<T*>(yv);
  for_lanes(n, [&](std::int64_t i, auto lanes) {
    const V g = read<V>(gate + i, lanes);
    write(y + i, (g / (V(1.0F) + fmath::exp_v(negated(g)))) * read<V>(up + i, lanes), lanes);
  });
}

template <class V, class T>
void swiglu_grad_row(void* dgatev, void* dupv, const void* gatev, const void* upv, const void* dyv, std::int64_t n) {
  const T* gate = static_cast<const T*>(gatev);
  const T* up = static_cast<const T*>(upv);
  const T* dy = static_cast<const T*>(dyv);
  T* dgate = static_cast<T*>(dgatev);
  T* dup = static_cast<T*>(dupv);
  const V one(1.0F);
  for_lanes(n, [&](std::int64_t i, auto lanes) {
    const V g = read<V>(gate + i, lanes);
    const V u = read<V>(up + i, lanes);
    const V d = read<V>(dy + i, lanes);
    const V e = one / (one + fmath::exp_v(negated(g)));
    const V h = g * e;
    write(dup + i, d * h, lanes);
    write(dgate + i, (d * u) * (e * (one + g * (one - e))), lanes);
  });
}

template <class V>
void adamw_span(float* p, float* m, float* v, const float* g, const AdamwStep& step, std::int64_t n, bf16* copy) {
  const V lr(step.lr), b1(step.b1), b2(step.b2), eps(step.eps), wd(step.wd), c1(step.c1), c2(step.c2), clip(step.clip);
  const V rest1 = V(1.0F) - b1;
  const V rest2 = V(1.0F) - b2;
  for_lanes(n, [&](std::int64_t i, auto lanes) {
    const V gc = read<V>(g + i, lanes) * clip;
    const V m1 = b1 * read<V>(m + i, lanes) + rest1 * gc;
    const V v1 = b2 * read<V>(v + i, lanes) + (rest2 * gc) * gc;
    const V u = (m1 * c1) / (sqrt(v1 * c2) + eps);
    const V p0 = read<V>(p + i, lanes);
    const V p1 = p0 - lr * (u + wd * p0);
    write(m + i, m1, lanes);
    write(v + i, v1, lanes);
    write(p + i, p1, lanes);
    if (copy != nullptr) {
      write(copy + i, p1, lanes);
    }
  });
}

template <class V>
constexpr FusedTable make_elementwise_fused_table() {
  return {{rope_row<V, float>, rope_row<V, bf16>, rope_row<V, f16>},
          {swiglu_row<V, float>, swiglu_row<V, bf16>, swiglu_row<V, f16>},
          {swiglu_grad_row<V, float>, swiglu_grad_row<V, bf16>, swiglu_grad_row<V, f16>},
          adamw_span<V>};
}

}  // namespace isotone::cpu
