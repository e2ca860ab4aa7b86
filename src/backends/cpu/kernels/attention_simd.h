// Vectors for the attention tiles, one type a file that includes this: FS (plain C++), F4 (NEON), F8 (AVX2), F16
// (AVX-512), with what base/fmath_impl.h asks for and a few functions more. All in an anonymous namespace: each file
// has its own flags.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"  // g++ 12 warns inside its own intrinsics
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#endif

#include "base/dtype.h"
#include "base/fmath_impl.h"
#include "base/half.h"

#if defined(ISOTONE_ATTENTION_NEON)
#include "backends/cpu/kernels/attention_simd_neon.h"
#endif

namespace isotone::cpu::attention {
namespace {

template <int N>
ISOTONE_INLINE float fold_scalar(float* c, bool maximum) {
  for (int half = 8; half >= 1; half /= 2) {
    for (int i = 0; i < half; ++i) {
      c[i] = maximum ? (c[i + half] < c[i] ? c[i] : c[i + half]) : c[i] + c[i + half];
    }
  }
  return c[0];
}

#if defined(ISOTONE_ATTENTION_AVX512)

struct M16 {
  __mmask16 v;
  friend ISOTONE_INLINE M16 operator&(M16 a, M16 b) { return {static_cast<__mmask16>(a.v & b.v)}; }
  friend ISOTONE_INLINE M16 operator|(M16 a, M16 b) { return {static_cast<__mmask16>(a.v | b.v)}; }
  friend ISOTONE_INLINE M16 operator!(M16 a) { return {static_cast<__mmask16>(~a.v)}; }
  friend ISOTONE_INLINE M16 operator==(M16 a, M16 b) { return {static_cast<__mmask16>(~(a.v ^ b.v))}; }
  friend ISOTONE_INLINE bool any(M16 a) { return a.v != 0; }
};
struct I16 {
  __m512i v;
  ISOTONE_INLINE I16() = default;
  ISOTONE_INLINE I16(__m512i x) : v(x) {}
  ISOTONE_INLINE I16(std::int32_t x) : v(_mm512_set1_epi32(x)) {}
  friend ISOTONE_INLINE I16 operator+(I16 a, I16 b) { return _mm512_add_epi32(a.v, b.v); }
  friend ISOTONE_INLINE I16 operator-(I16 a, I16 b) { return _mm512_sub_epi32(a.v, b.v); }
  friend ISOTONE_INLINE I16 operator&(I16 a, I16 b) { return _mm512_and_si512(a.v, b.v); }
  friend ISOTONE_INLINE I16 operator|(I16 a, I16 b) { return _mm512_or_si512(a.v, b.v); }
  friend ISOTONE_INLINE I16 operator^(I16 a, I16 b) { return _mm512_xor_si512(a.v, b.v); }
  friend ISOTONE_INLINE I16 select(M16 m, I16 a, I16 b) { return _mm512_mask_blend_epi32(m.v, b.v, a.v); }
  friend ISOTONE_INLINE M16 operator<(I16 a, I16 b) { return {_mm512_cmplt_epi32_mask(a.v, b.v)}; }
  friend ISOTONE_INLINE M16 operator==(I16 a, I16 b) { return {_mm512_cmpeq_epi32_mask(a.v, b.v)}; }
};
template <int N>
ISOTONE_INLINE I16 shl(I16 a) {
  return _mm512_slli_epi32(a.v, N);
}
template <int N>
ISOTONE_INLINE I16 sar(I16 a) {
  return _mm512_srai_epi32(a.v, N);
}

struct F16 {
  using I = I16;
  using M = M16;
  static constexpr int kLanes = 16;
  static constexpr int kPanel = 4;  // vectors of a register tile's row
  static constexpr int kRows = 6;
  __m512 v;
  ISOTONE_INLINE F16() = default;
  ISOTONE_INLINE F16(__m512 x) : v(x) {}
  ISOTONE_INLINE F16(float x) : v(_mm512_set1_ps(x)) {}
  friend ISOTONE_INLINE F16 operator+(F16 a, F16 b) { return _mm512_add_ps(a.v, b.v); }
  friend ISOTONE_INLINE F16 operator-(F16 a, F16 b) { return _mm512_sub_ps(a.v, b.v); }
  friend ISOTONE_INLINE F16 operator*(F16 a, F16 b) { return _mm512_mul_ps(a.v, b.v); }
  friend ISOTONE_INLINE F16 operator/(F16 a, F16 b) { return _mm512_div_ps(a.v, b.v); }
  friend ISOTONE_INLINE M16 operator<(F16 a, F16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
  friend ISOTONE_INLINE M16 operator<=(F16 a, F16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LE_OQ)}; }
  friend ISOTONE_INLINE M16 operator==(F16 a, F16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)}; }
  friend ISOTONE_INLINE F16 fma(F16 a, F16 b, F16 c) { return _mm512_fmadd_ps(a.v, b.v, c.v); }
  friend ISOTONE_INLINE F16 larger(F16 a, F16 b) { return _mm512_max_ps(a.v, b.v); }
  friend ISOTONE_INLINE I16 bits(F16 a) { return _mm512_castps_si512(a.v); }
  friend ISOTONE_INLINE F16 select(M16 m, F16 a, F16 b) { return _mm512_mask_blend_ps(m.v, b.v, a.v); }
  static ISOTONE_INLINE F16 from_bits(I16 a) { return _mm512_castsi512_ps(a.v); }
  static ISOTONE_INLINE F16 from_int(I16 a) { return _mm512_cvtepi32_ps(a.v); }
  static ISOTONE_INLINE F16 load(const float* p) { return _mm512_loadu_ps(p); }
  ISOTONE_INLINE void store(float* p) const { _mm512_storeu_ps(p, v); }
  static ISOTONE_INLINE __mmask16 first(std::int64_t n) {
    return n >= 16 ? 0xffff : static_cast<__mmask16>((1U << n) - 1U);
  }
  /// The first n (at most 16) items, the rest +0; 16-bit ones widened as unsigned integers into `load_words16`.
  static ISOTONE_INLINE F16 load_some(const float* p, std::int64_t n) {
    return n >= 16 ? _mm512_loadu_ps(p) : _mm512_maskz_loadu_ps(first(n), p);
  }
  static ISOTONE_INLINE I16 load_words16(const std::uint16_t* p, std::int64_t n) {
    return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(first(n), p));
  }
  static ISOTONE_INLINE F16 widen_f16(const std::uint16_t* p, std::int64_t n) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first(n), p));
  }
  ISOTONE_INLINE void store_some(float* p, std::int64_t n) const { _mm512_mask_storeu_ps(p, first(n), v); }
  /// The low halves of the words.
  static ISOTONE_INLINE void store_words16(std::uint16_t* p, I16 x, std::int64_t n) {
    _mm256_mask_storeu_epi16(p, first(n), _mm512_cvtepi32_epi16(x.v));
  }
  static ISOTONE_INLINE I16 narrow_f16(F16 x) {
    return _mm512_cvtepu16_epi32(_mm512_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  static ISOTONE_INLINE F16 round_f16(F16 x) {
    return _mm512_cvtph_ps(_mm512_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  /// Lanes whose index `at` + lane lies in [lo, hi).
  static ISOTONE_INLINE M16 in_range(int at, int lo, int hi) {
    const int from = lo > at ? lo - at : 0, to = hi - at;
    return {static_cast<__mmask16>(first(to < 0 ? 0 : to) & ~first(from))};
  }
  static ISOTONE_INLINE float fold_add(const F16* c) {
    const __m256 a = _mm256_add_ps(_mm512_castps512_ps256(c->v), _mm512_extractf32x8_ps(c->v, 1));
    const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 d = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(d, _mm_movehdup_ps(d)));
  }
  static ISOTONE_INLINE float fold_max(const F16* c) {
    const __m256 a = _mm256_max_ps(_mm512_castps512_ps256(c->v), _mm512_extractf32x8_ps(c->v, 1));
    const __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 d = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(d, _mm_movehdup_ps(d)));
  }
};
/// fmath::exp_v for x <= 88 in fewer steps, under FlushSubnormals: a NaN stays one (of any pattern).
ISOTONE_INLINE F16 exp_small(F16 x) {
  constexpr float c[] = {5.000000000e-01F, 1.666666716e-01F, 4.166646302e-02F,
                         8.333310485e-03F, 1.393373124e-03F, 1.989107986e-04F};
  x = F16(_mm512_max_ps(_mm512_set1_ps(-100.0F), x.v));
  const F16 t = fma(x, F16(1.442695022e+00F), F16(fmath::kRoundMagic));
  const F16 n = t - F16(fmath::kRoundMagic);
  F16 r = fma(n, F16(-6.931471825e-01F), x);
  r = fma(n, F16(1.904654212e-09F), r);
  const F16 p = F16(1.0F) + fma(r * r, fmath::polynomial(r, c), r);
  return _mm512_scalef_ps(p.v, n.v);
}
ISOTONE_INLINE F16 divide(F16 a, F16 b) {
  return a / b;
}
ISOTONE_INLINE void transpose16(F16* x) {
  __m512i r[16], t[16];
  for (int i = 0; i < 16; ++i) {
    r[i] = _mm512_castps_si512(x[i].v);
  }
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
  }
  for (int i = 0; i < 4; ++i) {
    x[i] = _mm512_castsi512_ps(_mm512_shuffle_i32x4(t[i], t[i + 8], 0x88));
    x[i + 8] = _mm512_castsi512_ps(_mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd));
    x[i + 4] = _mm512_castsi512_ps(_mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88));
    x[i + 12] = _mm512_castsi512_ps(_mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd));
  }
}
using Vec = F16;

#elif defined(ISOTONE_ATTENTION_AVX2)

struct M8 {
  __m256 v;
  friend ISOTONE_INLINE M8 operator&(M8 a, M8 b) { return {_mm256_and_ps(a.v, b.v)}; }
  friend ISOTONE_INLINE M8 operator|(M8 a, M8 b) { return {_mm256_or_ps(a.v, b.v)}; }
  friend ISOTONE_INLINE M8 operator!(M8 a) { return {_mm256_xor_ps(a.v, _mm256_castsi256_ps(_mm256_set1_epi32(-1)))}; }
  friend ISOTONE_INLINE bool any(M8 a) { return _mm256_movemask_ps(a.v) != 0; }
};
struct I8 {
  __m256i v;
  ISOTONE_INLINE I8() = default;
  ISOTONE_INLINE I8(__m256i x) : v(x) {}
  ISOTONE_INLINE I8(std::int32_t x) : v(_mm256_set1_epi32(x)) {}
  friend ISOTONE_INLINE I8 operator+(I8 a, I8 b) { return _mm256_add_epi32(a.v, b.v); }
  friend ISOTONE_INLINE I8 operator-(I8 a, I8 b) { return _mm256_sub_epi32(a.v, b.v); }
  friend ISOTONE_INLINE I8 operator&(I8 a, I8 b) { return _mm256_and_si256(a.v, b.v); }
  friend ISOTONE_INLINE I8 operator|(I8 a, I8 b) { return _mm256_or_si256(a.v, b.v); }
  friend ISOTONE_INLINE I8 operator^(I8 a, I8 b) { return _mm256_xor_si256(a.v, b.v); }
  friend ISOTONE_INLINE I8 select(M8 m, I8 a, I8 b) {
    return _mm256_castps_si256(_mm256_blendv_ps(_mm256_castsi256_ps(b.v), _mm256_castsi256_ps(a.v), m.v));
  }
  friend ISOTONE_INLINE M8 operator<(I8 a, I8 b) { return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(b.v, a.v))}; }
  friend ISOTONE_INLINE M8 operator==(I8 a, I8 b) { return {_mm256_castsi256_ps(_mm256_cmpeq_epi32(a.v, b.v))}; }
};
template <int N>
ISOTONE_INLINE I8 shl(I8 a) {
  return _mm256_slli_epi32(a.v, N);
}
template <int N>
ISOTONE_INLINE I8 sar(I8 a) {
  return _mm256_srai_epi32(a.v, N);
}

struct F8 {
  using I = I8;
  using M = M8;
  static constexpr int kLanes = 8;
  static constexpr int kPanel = 2;
  static constexpr int kRows = 6;
  __m256 v;
  ISOTONE_INLINE F8() = default;
  ISOTONE_INLINE F8(__m256 x) : v(x) {}
  ISOTONE_INLINE F8(float x) : v(_mm256_set1_ps(x)) {}
  friend ISOTONE_INLINE F8 operator+(F8 a, F8 b) { return _mm256_add_ps(a.v, b.v); }
  friend ISOTONE_INLINE F8 operator-(F8 a, F8 b) { return _mm256_sub_ps(a.v, b.v); }
  friend ISOTONE_INLINE F8 operator*(F8 a, F8 b) { return _mm256_mul_ps(a.v, b.v); }
  friend ISOTONE_INLINE F8 operator/(F8 a, F8 b) { return _mm256_div_ps(a.v, b.v); }
  friend ISOTONE_INLINE M8 operator<(F8 a, F8 b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ)}; }
  friend ISOTONE_INLINE M8 operator<=(F8 a, F8 b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_LE_OQ)}; }
  friend ISOTONE_INLINE M8 operator==(F8 a, F8 b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_EQ_OQ)}; }
  friend ISOTONE_INLINE F8 fma(F8 a, F8 b, F8 c) { return _mm256_fmadd_ps(a.v, b.v, c.v); }
  friend ISOTONE_INLINE F8 larger(F8 a, F8 b) { return _mm256_max_ps(a.v, b.v); }
  friend ISOTONE_INLINE I8 bits(F8 a) { return _mm256_castps_si256(a.v); }
  friend ISOTONE_INLINE F8 select(M8 m, F8 a, F8 b) { return _mm256_blendv_ps(b.v, a.v, m.v); }
  static ISOTONE_INLINE F8 from_bits(I8 a) { return _mm256_castsi256_ps(a.v); }
  static ISOTONE_INLINE F8 from_int(I8 a) { return _mm256_cvtepi32_ps(a.v); }
  static ISOTONE_INLINE F8 load(const float* p) { return _mm256_loadu_ps(p); }
  ISOTONE_INLINE void store(float* p) const { _mm256_storeu_ps(p, v); }
  static ISOTONE_INLINE __m128i load_raw16(const std::uint16_t* p, std::int64_t n) {
    if (n >= 8) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    }
    std::uint16_t some[8] = {};
    std::memcpy(some, p, static_cast<std::size_t>(n) * 2);
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(some));
  }
  static ISOTONE_INLINE F8 load_some(const float* p, std::int64_t n) {
    if (n >= 8) {
      return load(p);
    }
    float some[8] = {};
    std::memcpy(some, p, static_cast<std::size_t>(n) * 4);
    return load(some);
  }
  static ISOTONE_INLINE I8 load_words16(const std::uint16_t* p, std::int64_t n) {
    return _mm256_cvtepu16_epi32(load_raw16(p, n));
  }
  static ISOTONE_INLINE F8 widen_f16(const std::uint16_t* p, std::int64_t n) {
    return _mm256_cvtph_ps(load_raw16(p, n));
  }
  ISOTONE_INLINE void store_some(float* p, std::int64_t n) const {
    float all[8];
    store(all);
    std::memcpy(p, all, static_cast<std::size_t>(n < 8 ? n : 8) * 4);
  }
  static ISOTONE_INLINE void store_words16(std::uint16_t* p, I8 x, std::int64_t n) {
    std::uint32_t all[8];
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(all), x.v);
    for (int i = 0; i < (n < 8 ? n : 8); ++i) {
      p[i] = static_cast<std::uint16_t>(all[i]);
    }
  }
  static ISOTONE_INLINE I8 narrow_f16(F8 x) { return _mm256_cvtepu16_epi32(_mm256_cvtps_ph(x.v, 0)); }
  static ISOTONE_INLINE F8 round_f16(F8 x) { return _mm256_cvtph_ps(_mm256_cvtps_ph(x.v, 0)); }
  static ISOTONE_INLINE M8 in_range(int at, int lo, int hi) {
    const I8 index = I8(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)) + I8(at);
    return (I8(lo - 1) < index) & (index < I8(hi));
  }
  static ISOTONE_INLINE float fold4(__m128 b, bool maximum) {
    const __m128 hi = _mm_movehl_ps(b, b);
    const __m128 d = maximum ? _mm_max_ps(b, hi) : _mm_add_ps(b, hi);
    const __m128 odd = _mm_movehdup_ps(d);
    return _mm_cvtss_f32(maximum ? _mm_max_ss(d, odd) : _mm_add_ss(d, odd));
  }
  static ISOTONE_INLINE float fold_add(const F8* c) {
    const __m256 a = _mm256_add_ps(c[0].v, c[1].v);
    return fold4(_mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1)), false);
  }
  static ISOTONE_INLINE float fold_max(const F8* c) {
    const __m256 a = _mm256_max_ps(c[0].v, c[1].v);
    return fold4(_mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1)), true);
  }
};
ISOTONE_INLINE F8 divide(F8 a, F8 b) {
  return a / b;
}
ISOTONE_INLINE F8 exp_small(F8 x) {
  return fmath::exp_v(x);
}
using Vec = F8;

#elif !defined(ISOTONE_ATTENTION_NEON)

struct FS : fmath::F1 {
  static constexpr int kPanel = 4;
  static constexpr int kRows = 2;
  using fmath::F1::F1;
  ISOTONE_INLINE FS(fmath::F1 x) : fmath::F1(x) {}
  friend ISOTONE_INLINE FS operator+(FS a, FS b) { return a.v + b.v; }
  friend ISOTONE_INLINE FS operator-(FS a, FS b) { return a.v - b.v; }
  friend ISOTONE_INLINE FS operator*(FS a, FS b) { return a.v * b.v; }
  friend ISOTONE_INLINE FS operator/(FS a, FS b) { return a.v / b.v; }
  friend ISOTONE_INLINE FS fma(FS a, FS b, FS c) { return __builtin_fmaf(a.v, b.v, c.v); }
  friend ISOTONE_INLINE FS larger(FS a, FS b) { return b.v < a.v ? a.v : b.v; }
  friend ISOTONE_INLINE FS select(M m, FS a, FS b) { return m.v ? a.v : b.v; }
  static ISOTONE_INLINE FS from_bits(I a) { return std::bit_cast<float>(a.v); }
  static ISOTONE_INLINE FS load(const float* p) { return *p; }
  static ISOTONE_INLINE FS load_some(const float* p, std::int64_t n) { return n > 0 ? *p : 0.0F; }
  static ISOTONE_INLINE I load_words16(const std::uint16_t* p, std::int64_t n) {
    return I(n > 0 ? std::int32_t{*p} : 0);
  }
  static ISOTONE_INLINE FS widen_f16(const std::uint16_t* p, std::int64_t n) {
    return n > 0 ? static_cast<float>(isotone::f16::from_bits(*p)) : 0.0F;
  }
  ISOTONE_INLINE void store_some(float* p, std::int64_t n) const {
    if (n > 0) {
      *p = v;
    }
  }
  static ISOTONE_INLINE void store_words16(std::uint16_t* p, I x, std::int64_t n) {
    if (n > 0) {
      *p = static_cast<std::uint16_t>(x.v);
    }
  }
  static ISOTONE_INLINE I narrow_f16(FS x) { return I(std::int32_t{isotone::f16(x.v).bits}); }
  static ISOTONE_INLINE FS round_f16(FS x) { return static_cast<float>(isotone::f16(x.v)); }
  static ISOTONE_INLINE M in_range(int at, int lo, int hi) { return {at >= lo && at < hi}; }
  static ISOTONE_INLINE float fold(const FS* c, bool maximum) {
    float x[16];
    for (int i = 0; i < 16; ++i) {
      x[i] = c[i].v;
    }
    return fold_scalar<16>(x, maximum);
  }
  static ISOTONE_INLINE float fold_add(const FS* c) { return fold(c, false); }
  static ISOTONE_INLINE float fold_max(const FS* c) { return fold(c, true); }
};
ISOTONE_INLINE FS divide(FS a, FS b) {
  return a / b;
}
ISOTONE_INLINE FS exp_small(FS x) {
  return fmath::exp_v(x);
}
using Vec = FS;

#endif

}  // namespace
}  // namespace isotone::cpu::attention
