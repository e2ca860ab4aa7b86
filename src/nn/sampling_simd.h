// Eight lanes of f32 for the functions of base/fmath_impl.h, used by sampling alone: a vocabulary has tens of thousands
// of logits, and one exp at a time would cost a tenth of a small model's step. Lanes are independent: same bits as F1.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__FMA__)
#include <immintrin.h>
#endif

#include "base/fmath_impl.h"

namespace isotone::nn {

// GCC's vector extension: wide registers where there are some, plain code elsewhere.
using RawF8 = float __attribute__((vector_size(32)));
using RawI8 = std::int32_t __attribute__((vector_size(32)));

struct M8 {
  RawI8 v;
  friend ISOTONE_INLINE M8 operator&(M8 a, M8 b) { return {a.v & b.v}; }
  friend ISOTONE_INLINE M8 operator|(M8 a, M8 b) { return {a.v | b.v}; }
};
struct I8 {
  RawI8 v;
  ISOTONE_INLINE I8(RawI8 x) : v(x) {}
  ISOTONE_INLINE I8(std::int32_t x) : v(RawI8{} + x) {}
  // Sums wrap in unsigned lanes.
  friend ISOTONE_INLINE I8 operator+(I8 a, I8 b) { return wrap(unsign(a) + unsign(b)); }
  friend ISOTONE_INLINE I8 operator-(I8 a, I8 b) { return wrap(unsign(a) - unsign(b)); }
  friend ISOTONE_INLINE I8 operator&(I8 a, I8 b) { return RawI8(a.v & b.v); }
  friend ISOTONE_INLINE M8 operator<(I8 a, I8 b) { return {RawI8(a.v < b.v)}; }

 private:
  using RawU8 = std::uint32_t __attribute__((vector_size(32)));
  static ISOTONE_INLINE RawU8 unsign(I8 a) { return reinterpret_cast<RawU8>(a.v); }
  static ISOTONE_INLINE I8 wrap(RawU8 x) { return reinterpret_cast<RawI8>(x); }
};
ISOTONE_INLINE I8 select(M8 m, I8 a, I8 b) {
  return RawI8(m.v ? a.v : b.v);
}
template <int N>
ISOTONE_INLINE I8 shl(I8 a) {
  return RawI8(a.v << N);
}
struct F8 {
  using I = I8;
  using M = M8;
  static constexpr int kLanes = 8;
  RawF8 v;
  ISOTONE_INLINE F8(RawF8 x) : v(x) {}
  ISOTONE_INLINE F8(float x) : v(RawF8{} + x) {}
  friend ISOTONE_INLINE F8 operator+(F8 a, F8 b) { return RawF8(a.v + b.v); }
  friend ISOTONE_INLINE F8 operator-(F8 a, F8 b) { return RawF8(a.v - b.v); }
  friend ISOTONE_INLINE F8 operator*(F8 a, F8 b) { return RawF8(a.v * b.v); }
  friend ISOTONE_INLINE M8 operator<(F8 a, F8 b) { return {RawI8(a.v < b.v)}; }
  friend ISOTONE_INLINE F8 fma(F8 a, F8 b, F8 c) {
#if defined(__FMA__)
    return RawF8(_mm256_fmadd_ps(a.v, b.v, c.v));
#else
    for (int i = 0; i < kLanes; ++i) {
      c.v[i] = __builtin_fmaf(a.v[i], b.v[i], c.v[i]);
    }
    return c;
#endif
  }
  friend ISOTONE_INLINE I8 bits(F8 a) {
    return reinterpret_cast<RawI8>(a.v);
  }
  friend ISOTONE_INLINE F8 select(M8 m, F8 a, F8 b) {
    return RawF8(m.v ? a.v : b.v);
  }
  static ISOTONE_INLINE F8 from_bits(I8 a) {
    return reinterpret_cast<RawF8>(a.v);
  }
  static ISOTONE_INLINE F8 load(const float* p) {
    RawF8 x;
    std::memcpy(&x, p, sizeof x);
    return x;
  }
  ISOTONE_INLINE void store(float* p) const {
    std::memcpy(p, &v, sizeof v);
  }
};

}  // namespace isotone::nn
