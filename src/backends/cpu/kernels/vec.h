// What kernels say to sixteen lanes beyond arithmetic: reading and writing storage types, whole rows, folds by halves,
// and the plain reduction over the axis tree (numerics contract, section 2).
#pragma once

#include <cstdint>
#include <cstring>

#include "base/fmath_impl.h"
#include "base/half.h"
#include "base/tree.h"

namespace isotone::cpu {

using fmath::canonical;

/// Lanes of `p`, widened.
template <class V, class T>
ISOTONE_INLINE V get(const T* p) {
  return V::load(p);
}

/// The first n (1 to 15) lanes of `p`; the others hold `fill`.
template <class V, class T>
ISOTONE_INLINE V get_n(const T* p, std::int64_t n, float fill = 0.0F) {
  if constexpr (requires { V::load_n(p, n, fill); }) {
    return V::load_n(p, n, fill);
  } else {
    float lanes[V::kLanes];
    T part[V::kLanes] = {};
    std::memcpy(part, p, static_cast<std::size_t>(n) * sizeof(T));
    V::load(part).store(lanes);
    for (std::int64_t i = n; i < V::kLanes; ++i) {
      lanes[i] = fill;
    }
    return V::load(static_cast<const float*>(lanes));
  }
}

/// Rounds once and writes; NaN gets its one pattern.
template <class V, class T>
ISOTONE_INLINE void put(T* p, V v) {
  canonical(v).store(p);
}
template <class V, class T>
ISOTONE_INLINE void put_n(T* p, V v, std::int64_t n) {
  if constexpr (requires { v.store_n(p, n); }) {
    canonical(v).store_n(p, n);
  } else {
    T part[V::kLanes];
    canonical(v).store(part);
    std::memcpy(p, part, static_cast<std::size_t>(n) * sizeof(T));
  }
}

/// Calls body(i, n) for i = 0, 16, ... with n lanes (16, or fewer at the end, known at compile time to be 16 before).
struct Full {
  static constexpr bool kFull = true;
  constexpr operator std::int64_t() const { return 16; }
};
struct Partial {
  static constexpr bool kFull = false;
  std::int64_t n;
  ISOTONE_INLINE operator std::int64_t() const { return n; }
};
template <class Body>
ISOTONE_INLINE void for_lanes(std::int64_t n, const Body& body) {
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    body(i, Full{});
  }
  if (i < n) {
    body(i, Partial{n - i});
  }
}
template <class V, class T, class N>
ISOTONE_INLINE V read(const T* p, N n, float fill = 0.0F) {
  if constexpr (N::kFull) {
    return get<V>(p);
  } else {
    return get_n<V>(p, n, fill);
  }
}
template <class V, class T, class N>
ISOTONE_INLINE void write(T* p, V v, N n) {
  if constexpr (N::kFull) {
    put(p, v);
  } else {
    put_n(p, v, n);
  }
}

/// The sixteen chains folded by halves: lane i with lane i+8, then i+4, i+2, i+1; the left one first.
template <class V>
ISOTONE_INLINE float fold_sum(V v) {
  float a[16];
  v.store(a);
  for (int half = 8; half >= 1; half /= 2) {
    for (int i = 0; i < half; ++i) {
      a[i] = a[i] + a[i + half];
    }
  }
  return a[0] + 0.0F;
}

/// The larger lane; the caller looks for NaN.
template <class V>
ISOTONE_INLINE V larger(V a, V b) {
  return select(a < b, b, a);
}
template <class V>
ISOTONE_INLINE float fold_max(V v) {
  float a[16];
  v.store(a);
  float m = a[0];
  for (int i = 1; i < 16; ++i) {
    m = m < a[i] ? a[i] : m;
  }
  return m;
}

/// A plain reduction over [0, n): `term(i, lanes)` gives the terms from element i on, missing lanes +0.
template <class V, class Term>
ISOTONE_INLINE float leaf_sum(std::int64_t begin, std::int64_t n, const Term& term) {
  V chains(0.0F);
  const std::int64_t whole = n / 16 * 16;
  for (std::int64_t i = 0; i < whole; i += 16) {
    chains = chains + term(begin + i, Full{});
  }
  if (whole < n) {
    chains = chains + term(begin + whole, Partial{n - whole});
  }
  return fold_sum(chains);
}
template <class V, class Term>
ISOTONE_INLINE float plain_sum(std::int64_t n, const Term& term) {
  if (n <= kLeaf) {
    return leaf_sum<V>(0, n, term);
  }
  return axis_tree(
      0, n, [&](std::int64_t begin, std::int64_t length) { return leaf_sum<V>(begin, length, term); },
      [](float a, float b) { return a + b; });
}

/// The largest of [0, n) without regard to order: NaN where there is one, and +0 for zeros of either sign.
template <class V, class T>
ISOTONE_INLINE float row_max(const T* x, std::int64_t n) {
  const V lowest(-__builtin_inff());
  V m0 = lowest;
  V m1 = lowest;
  V seen(0.0F);  // turns NaN where any lane was
  std::int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    const V a = get<V>(x + i);
    const V b = get<V>(x + i + 16);
    m0 = larger(m0, a);
    m1 = larger(m1, b);
    seen = select((a == a) & (b == b), seen, fmath::quiet_nan<V>());
  }
  for (; i < n; i += 16) {
    const V a = i + 16 <= n ? get<V>(x + i) : get_n<V>(x + i, n - i, -__builtin_inff());
    m0 = larger(m0, a);
    seen = select(a == a, seen, fmath::quiet_nan<V>());
  }
  if (any(fmath::is_nan(seen))) {
    return __builtin_nanf("");
  }
  return fold_max(larger(m0, m1)) + 0.0F;
}

/// The f32 functions of one number in a kernel's own instance (no call into code of other compiler flags).
ISOTONE_INLINE float log_one(float x) {
  return fmath::log_v(fmath::F1(x)).v;
}

}  // namespace isotone::cpu
