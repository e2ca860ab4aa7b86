// Eight lanes of AVX2 with FMA and F16C, and sixteen as a pair of them.
#pragma once

#include <immintrin.h>

#include "backends/cpu/kernels/vec_pair.h"

namespace isotone::cpu {

struct Avx2Mask {
  __m256 v;
  friend ISOTONE_INLINE Avx2Mask operator&(Avx2Mask a, Avx2Mask b) { return {_mm256_and_ps(a.v, b.v)}; }
  friend ISOTONE_INLINE Avx2Mask operator|(Avx2Mask a, Avx2Mask b) { return {_mm256_or_ps(a.v, b.v)}; }
  friend ISOTONE_INLINE Avx2Mask operator!(Avx2Mask a) {
    return {_mm256_xor_ps(a.v, _mm256_castsi256_ps(_mm256_set1_epi32(-1)))};
  }
  friend ISOTONE_INLINE Avx2Mask operator==(Avx2Mask a, Avx2Mask b) { return !Avx2Mask{_mm256_xor_ps(a.v, b.v)}; }
  friend ISOTONE_INLINE bool any(Avx2Mask a) { return _mm256_movemask_ps(a.v) != 0; }
};

struct Avx2Int {
  using M = Avx2Mask;
  __m256i v;
  ISOTONE_INLINE Avx2Int() = default;
  ISOTONE_INLINE Avx2Int(__m256i x) : v(x) {}
  explicit ISOTONE_INLINE Avx2Int(std::int32_t x) : v(_mm256_set1_epi32(x)) {}
  friend ISOTONE_INLINE Avx2Int operator+(Avx2Int a, Avx2Int b) { return _mm256_add_epi32(a.v, b.v); }
  friend ISOTONE_INLINE Avx2Int operator-(Avx2Int a, Avx2Int b) { return _mm256_sub_epi32(a.v, b.v); }
  friend ISOTONE_INLINE Avx2Int operator&(Avx2Int a, Avx2Int b) { return _mm256_and_si256(a.v, b.v); }
  friend ISOTONE_INLINE Avx2Int operator|(Avx2Int a, Avx2Int b) { return _mm256_or_si256(a.v, b.v); }
  friend ISOTONE_INLINE Avx2Int operator^(Avx2Int a, Avx2Int b) { return _mm256_xor_si256(a.v, b.v); }
  friend ISOTONE_INLINE M operator<(Avx2Int a, Avx2Int b) {
    return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(b.v, a.v))};
  }
  friend ISOTONE_INLINE M operator==(Avx2Int a, Avx2Int b) {
    return {_mm256_castsi256_ps(_mm256_cmpeq_epi32(a.v, b.v))};
  }
  friend ISOTONE_INLINE Avx2Int select(M m, Avx2Int a, Avx2Int b) {
    return _mm256_blendv_epi8(b.v, a.v, _mm256_castps_si256(m.v));
  }
};
template <int N>
ISOTONE_INLINE Avx2Int shl(Avx2Int a) {
  return _mm256_slli_epi32(a.v, N);
}
template <int N>
ISOTONE_INLINE Avx2Int sar(Avx2Int a) {
  return _mm256_srai_epi32(a.v, N);
}

struct Avx2Half {
  using I = Avx2Int;
  using M = Avx2Mask;
  static constexpr int kLanes = 8;
  __m256 v;
  ISOTONE_INLINE Avx2Half() = default;
  ISOTONE_INLINE Avx2Half(__m256 x) : v(x) {}
  explicit ISOTONE_INLINE Avx2Half(float x) : v(_mm256_set1_ps(x)) {}
  friend ISOTONE_INLINE Avx2Half operator+(Avx2Half a, Avx2Half b) { return _mm256_add_ps(a.v, b.v); }
  friend ISOTONE_INLINE Avx2Half operator-(Avx2Half a, Avx2Half b) { return _mm256_sub_ps(a.v, b.v); }
  friend ISOTONE_INLINE Avx2Half operator*(Avx2Half a, Avx2Half b) { return _mm256_mul_ps(a.v, b.v); }
  friend ISOTONE_INLINE Avx2Half operator/(Avx2Half a, Avx2Half b) { return _mm256_div_ps(a.v, b.v); }
  friend ISOTONE_INLINE M operator<(Avx2Half a, Avx2Half b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ)}; }
  friend ISOTONE_INLINE M operator<=(Avx2Half a, Avx2Half b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_LE_OQ)}; }
  friend ISOTONE_INLINE M operator==(Avx2Half a, Avx2Half b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_EQ_OQ)}; }
  friend ISOTONE_INLINE Avx2Half fma(Avx2Half a, Avx2Half b, Avx2Half c) { return _mm256_fmadd_ps(a.v, b.v, c.v); }
  friend ISOTONE_INLINE Avx2Half sqrt(Avx2Half a) { return _mm256_sqrt_ps(a.v); }
  friend ISOTONE_INLINE I bits(Avx2Half a) { return _mm256_castps_si256(a.v); }
  friend ISOTONE_INLINE Avx2Half select(M m, Avx2Half a, Avx2Half b) { return _mm256_blendv_ps(b.v, a.v, m.v); }
  friend ISOTONE_INLINE I to_int(Avx2Half a) { return _mm256_cvtps_epi32(a.v); }
  static ISOTONE_INLINE Avx2Half from_bits(I a) { return _mm256_castsi256_ps(a.v); }
  static ISOTONE_INLINE Avx2Half from_int(I a) { return _mm256_cvtepi32_ps(a.v); }
  static ISOTONE_INLINE I load_int(const std::int32_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static ISOTONE_INLINE Avx2Half load(const float* p) { return _mm256_loadu_ps(p); }
  static ISOTONE_INLINE Avx2Half load(const bf16* p) {
    const __m128i h = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
  }
  static ISOTONE_INLINE Avx2Half load(const f16* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  ISOTONE_INLINE void store(float* p) const { _mm256_storeu_ps(p, v); }
  ISOTONE_INLINE void store(bf16* p) const {
    const __m256i u = _mm256_castps_si256(v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    const __m256i r = _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd), 16);
    const __m128i packed = _mm_packus_epi32(_mm256_castsi256_si128(r), _mm256_extracti128_si256(r, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), packed);
  }
  ISOTONE_INLINE void store(f16* p) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
};

using Avx2 = Pair<Avx2Half>;

}  // namespace isotone::cpu
