// Sixteen lanes of AVX-512. Include it only in files named *_avx512.cc: they alone have the compiler flags.
#pragma once

// g++ 12 warns about the undefined operands inside its own header.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"

#include <immintrin.h>

#include <cstdint>

#include "base/fmath_impl.h"
#include "base/half.h"

namespace isotone::cpu {

struct Avx512Mask {
  __mmask16 v;
  friend ISOTONE_INLINE Avx512Mask operator&(Avx512Mask a, Avx512Mask b) { return {_kand_mask16(a.v, b.v)}; }
  friend ISOTONE_INLINE Avx512Mask operator|(Avx512Mask a, Avx512Mask b) { return {_kor_mask16(a.v, b.v)}; }
  friend ISOTONE_INLINE Avx512Mask operator!(Avx512Mask a) { return {_knot_mask16(a.v)}; }
  friend ISOTONE_INLINE Avx512Mask operator==(Avx512Mask a, Avx512Mask b) { return {_kxnor_mask16(a.v, b.v)}; }
  friend ISOTONE_INLINE bool any(Avx512Mask a) { return a.v != 0; }
};

struct Avx512Int {
  using M = Avx512Mask;
  __m512i v;
  ISOTONE_INLINE Avx512Int() = default;
  ISOTONE_INLINE Avx512Int(__m512i x) : v(x) {}
  explicit ISOTONE_INLINE Avx512Int(std::int32_t x) : v(_mm512_set1_epi32(x)) {}
  friend ISOTONE_INLINE Avx512Int operator+(Avx512Int a, Avx512Int b) { return _mm512_add_epi32(a.v, b.v); }
  friend ISOTONE_INLINE Avx512Int operator-(Avx512Int a, Avx512Int b) { return _mm512_sub_epi32(a.v, b.v); }
  friend ISOTONE_INLINE Avx512Int operator&(Avx512Int a, Avx512Int b) { return _mm512_and_si512(a.v, b.v); }
  friend ISOTONE_INLINE Avx512Int operator|(Avx512Int a, Avx512Int b) { return _mm512_or_si512(a.v, b.v); }
  friend ISOTONE_INLINE Avx512Int operator^(Avx512Int a, Avx512Int b) { return _mm512_xor_si512(a.v, b.v); }
  friend ISOTONE_INLINE M operator<(Avx512Int a, Avx512Int b) { return {_mm512_cmplt_epi32_mask(a.v, b.v)}; }
  friend ISOTONE_INLINE M operator==(Avx512Int a, Avx512Int b) { return {_mm512_cmpeq_epi32_mask(a.v, b.v)}; }
  friend ISOTONE_INLINE Avx512Int select(M m, Avx512Int a, Avx512Int b) {
    return _mm512_mask_blend_epi32(m.v, b.v, a.v);
  }
};
template <int N>
ISOTONE_INLINE Avx512Int shl(Avx512Int a) {
  return _mm512_slli_epi32(a.v, N);
}
template <int N>
ISOTONE_INLINE Avx512Int sar(Avx512Int a) {
  return _mm512_srai_epi32(a.v, N);
}

struct Avx512 {
  using I = Avx512Int;
  using M = Avx512Mask;
  static constexpr int kLanes = 16;
  __m512 v;
  ISOTONE_INLINE Avx512() = default;
  ISOTONE_INLINE Avx512(__m512 x) : v(x) {}
  explicit ISOTONE_INLINE Avx512(float x) : v(_mm512_set1_ps(x)) {}
  friend ISOTONE_INLINE Avx512 operator+(Avx512 a, Avx512 b) { return _mm512_add_ps(a.v, b.v); }
  friend ISOTONE_INLINE Avx512 operator-(Avx512 a, Avx512 b) { return _mm512_sub_ps(a.v, b.v); }
  friend ISOTONE_INLINE Avx512 operator*(Avx512 a, Avx512 b) { return _mm512_mul_ps(a.v, b.v); }
  friend ISOTONE_INLINE Avx512 operator/(Avx512 a, Avx512 b) { return _mm512_div_ps(a.v, b.v); }
  friend ISOTONE_INLINE M operator<(Avx512 a, Avx512 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
  friend ISOTONE_INLINE M operator<=(Avx512 a, Avx512 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LE_OQ)}; }
  friend ISOTONE_INLINE M operator==(Avx512 a, Avx512 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)}; }
  friend ISOTONE_INLINE Avx512 fma(Avx512 a, Avx512 b, Avx512 c) { return _mm512_fmadd_ps(a.v, b.v, c.v); }
  friend ISOTONE_INLINE Avx512 sqrt(Avx512 a) { return _mm512_sqrt_ps(a.v); }
  friend ISOTONE_INLINE I bits(Avx512 a) { return _mm512_castps_si512(a.v); }
  friend ISOTONE_INLINE Avx512 select(M m, Avx512 a, Avx512 b) { return _mm512_mask_blend_ps(m.v, b.v, a.v); }
  friend ISOTONE_INLINE I to_int(Avx512 a) { return _mm512_cvtps_epi32(a.v); }
  static ISOTONE_INLINE Avx512 from_bits(I a) { return _mm512_castsi512_ps(a.v); }
  static ISOTONE_INLINE Avx512 from_int(I a) { return _mm512_cvtepi32_ps(a.v); }
  static ISOTONE_INLINE I load_int(const std::int32_t* p) { return _mm512_loadu_si512(p); }

  static ISOTONE_INLINE __mmask16 first(std::int64_t n) { return static_cast<__mmask16>((1U << n) - 1U); }
  static ISOTONE_INLINE Avx512 widen(__m256i h, const bf16*) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
  }
  static ISOTONE_INLINE Avx512 widen(__m256i h, const f16*) { return _mm512_cvtph_ps(h); }
  static ISOTONE_INLINE Avx512 load(const float* p) { return _mm512_loadu_ps(p); }
  template <class T>
  static ISOTONE_INLINE Avx512 load(const T* p) {
    return widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)), p);
  }
  static ISOTONE_INLINE Avx512 load_n(const float* p, std::int64_t n, float fill) {
    return _mm512_mask_loadu_ps(_mm512_set1_ps(fill), first(n), p);
  }
  template <class T>
  static ISOTONE_INLINE Avx512 load_n(const T* p, std::int64_t n, float fill) {
    return _mm512_mask_blend_ps(first(n), _mm512_set1_ps(fill), widen(_mm256_maskz_loadu_epi16(first(n), p), p).v);
  }
  ISOTONE_INLINE __m256i narrow(const bf16*) const {
    const __m512i u = _mm512_castps_si512(v);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    const __m512i r = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd);
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(r, 16));
  }
  ISOTONE_INLINE __m256i narrow(const f16*) const {
    return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  ISOTONE_INLINE void store(float* p) const { _mm512_storeu_ps(p, v); }
  template <class T>
  ISOTONE_INLINE void store(T* p) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow(p));
  }
  ISOTONE_INLINE void store_n(float* p, std::int64_t n) const { _mm512_mask_storeu_ps(p, first(n), v); }
  template <class T>
  ISOTONE_INLINE void store_n(T* p, std::int64_t n) const {
    _mm256_mask_storeu_epi16(p, first(n), narrow(p));
  }
};

}  // namespace isotone::cpu
