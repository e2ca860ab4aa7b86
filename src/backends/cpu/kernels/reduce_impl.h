// Reductions over one vector type: lanes along a contiguous axis (they are the sixteen chains), or lanes over columns,
// where each column keeps its sixteen chains in sixteen vectors.
#pragma once

#include <utility>

#include "backends/cpu/kernels/reduce_table.h"
#include "backends/cpu/kernels/vec.h"
#include "backends/cpu/kernels/vec_pair.h"

namespace isotone::cpu {

template <class V>
ISOTONE_INLINE V opposite(V x) {
  return V::from_bits(bits(x) ^ typename V::I(static_cast<std::int32_t>(0x80000000U)));
}

/// The smallest of a row: like row_max.
template <class V, class T>
ISOTONE_INLINE float row_min(const T* x, std::int64_t n) {
  V m(__builtin_inff());
  V seen(0.0F);
  for_lanes(n, [&](std::int64_t i, auto lanes) {
    const V a = read<V>(x + i, lanes, __builtin_inff());
    m = select(a < m, a, m);
    seen = select(a == a, seen, fmath::quiet_nan<V>());
  });
  if (any(fmath::is_nan(seen))) {
    return __builtin_nanf("");
  }
  return -fold_max(opposite(m)) + 0.0F;
}

template <class V, class T, ReduceOp op>
ISOTONE_INLINE float reduce_row(const T* x, std::int64_t n) {
  const auto value = [x](std::int64_t i, auto lanes) { return read<V>(x + i, lanes); };
  switch (op) {
    case ReduceOp::sum:
      return plain_sum<V>(n, value);
    case ReduceOp::mean:
      return plain_sum<V>(n, value) / static_cast<float>(n);
    case ReduceOp::max:
      return row_max<V>(x, n);
    case ReduceOp::min:
      return row_min<V>(x, n);
    case ReduceOp::var: {
      const float mu = plain_sum<V>(n, value) / static_cast<float>(n);
      return plain_sum<V>(n,
                          [x, mu](std::int64_t i, auto lanes) {
                            const V c = read<V>(x + i, lanes, mu) - V(mu);
                            return c * c;
                          }) /
             static_cast<float>(n);
    }
    case ReduceOp::logsumexp: {
      const float m = row_max<V>(x, n);
      if (m == -__builtin_inff()) {
        return m;
      }
      return m + log_one(plain_sum<V>(n, [x, m](std::int64_t i, auto lanes) {
               return fmath::exp_v(read<V>(x + i, lanes, -__builtin_inff()) - V(m));
             }));
    }
  }
}

template <class V, class T, ReduceOp op>
void reduce_rows(float* y, const void* xv, std::int64_t rows, std::int64_t n) {
  for (std::int64_t row = 0; row < rows; ++row) {
    y[row] = canonical(fmath::F1(reduce_row<V, T, op>(static_cast<const T*>(xv) + row * n, n))).v;
  }
}

/// The plain sum of term(k) over k in [0, n), every lane an output of its own.
template <class V, class Term>
ISOTONE_INLINE V column_sum(std::int64_t n, const Term& term) {
  const auto leaf = [&](std::int64_t begin, std::int64_t length) {
    V chain[16];
    for (V& c : chain) {
      c = V(0.0F);
    }
    std::int64_t k = 0;
    for (; k + 16 <= length; k += 16) {
#pragma GCC unroll 16
      for (int c = 0; c < 16; ++c) {
        chain[c] = chain[c] + term(begin + k + c);
      }
    }
    for (int c = 0; k + c < length; ++c) {
      chain[c] = chain[c] + term(begin + k + c);
    }
    for (int half = 8; half >= 1; half /= 2) {
      for (int c = 0; c < half; ++c) {
        chain[c] = chain[c] + chain[c + half];
      }
    }
    return chain[0] + V(0.0F);
  };
  return axis_tree(0, n, leaf, [](V a, V b) { return a + b; });
}

template <class V, class T, class N>
ISOTONE_INLINE V column_extreme(const T* x, std::int64_t n, std::int64_t stride, N lanes, bool largest) {
  const V sign = V::from_bits(typename V::I(largest ? 0 : static_cast<std::int32_t>(0x80000000U)));
  V m(-__builtin_inff());
  V seen(0.0F);
  for (std::int64_t k = 0; k < n; ++k) {
    const V v = V::from_bits(bits(read<V>(x + k * stride, lanes)) ^ bits(sign));
    m = larger(m, v);
    seen = select(v == v, seen, fmath::quiet_nan<V>());
  }
  return select(fmath::is_nan(seen), seen, V::from_bits(bits(m) ^ bits(sign)) + V(0.0F));
}

template <class V, class T, ReduceOp op, class N>
ISOTONE_INLINE V reduce_columns_once(const T* x, std::int64_t n, std::int64_t stride, N lanes) {
  const auto value = [=](std::int64_t k) { return read<V>(x + k * stride, lanes); };
  const V count(static_cast<float>(n));
  switch (op) {
    case ReduceOp::sum:
      return column_sum<V>(n, value);
    case ReduceOp::mean:
      return column_sum<V>(n, value) / count;
    case ReduceOp::max:
      return column_extreme<V>(x, n, stride, lanes, true);
    case ReduceOp::min:
      return column_extreme<V>(x, n, stride, lanes, false);
    case ReduceOp::var: {
      const V mu = column_sum<V>(n, value) / count;
      return column_sum<V>(n,
                           [=](std::int64_t k) {
                             const V c = read<V>(x + k * stride, lanes) - mu;
                             return c * c;
                           }) /
             count;
    }
    case ReduceOp::logsumexp: {
      const V m = column_extreme<V>(x, n, stride, lanes, true);
      const V l = column_sum<V>(n, [=](std::int64_t k) { return fmath::exp_v(read<V>(x + k * stride, lanes) - m); });
      return select(m == V(-__builtin_inff()), m, m + fmath::log_v(l));
    }
  }
}

template <class V, class T, ReduceOp op>
void reduce_columns(float* y, const void* xv, std::int64_t columns, std::int64_t n, std::int64_t stride) {
  const T* x = static_cast<const T*>(xv);
  std::int64_t done = 0;
  // Sixty-four columns at a time read whole cache lines of each row; their chains live in the first-level cache.
  if constexpr (!requires { typename V::OneByOne; } && op != ReduceOp::logsumexp) {
    for (; done + 64 <= columns; done += 64) {
      put(y + done, reduce_columns_once<Pair<Pair<V>>, T, op>(x + done, n, stride, Full{}));
    }
  }
  for_lanes(columns - done, [&](std::int64_t i, auto lanes) {
    write(y + done + i, reduce_columns_once<V, T, op>(x + done + i, n, stride, lanes), lanes);
  });
}

template <class V, int... kOp>
constexpr ReduceTable fill_reduce(std::integer_sequence<int, kOp...>) {
  return {{{reduce_rows<V, float, static_cast<ReduceOp>(kOp)>, reduce_rows<V, bf16, static_cast<ReduceOp>(kOp)>,
            reduce_rows<V, f16, static_cast<ReduceOp>(kOp)>}...},
          {{reduce_columns<V, float, static_cast<ReduceOp>(kOp)>, reduce_columns<V, bf16, static_cast<ReduceOp>(kOp)>,
            reduce_columns<V, f16, static_cast<ReduceOp>(kOp)>}...}};
}

template <class V>
constexpr ReduceTable make_reduce_table() {
  return fill_reduce<V>(std::make_integer_sequence<int, kReduceOps>{});
}

}  // namespace isotone::cpu
