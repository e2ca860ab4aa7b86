// The contraction's vector type for AVX2 with FMA and F16C. bf16 pairs by widening and two fmas; integer dots that
// cannot saturate.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace isotone::cpu {
namespace {

struct VecAvx2 {
  using F = __m256;
  using I = __m256i;
  static constexpr int W = 8;
  static constexpr int kRegisters = 16;
  static constexpr int kRows = 6;
  static constexpr int kQuantRows = 4;
  static constexpr bool kPairDot = false;
  static constexpr int kQ8Bias = 0;

  static F zero() { return _mm256_setzero_ps(); }
  static F load(const float* p) { return _mm256_loadu_ps(p); }
  static void store(float* p, F x) { _mm256_storeu_ps(p, x); }
  static F broadcast(const float* p) { return _mm256_broadcast_ss(p); }
  static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  static F add(F a, F b) { return _mm256_add_ps(a, b); }
  static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static F divide(F a, F b) { return _mm256_div_ps(a, b); }
  static F canonical(F x) {
    return _mm256_blendv_ps(x, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000)), _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  }
  static __m128i load_8_halves(const std::uint16_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
  static F load_f16(const std::uint16_t* p) { return _mm256_cvtph_ps(load_8_halves(p)); }
  static F load_bf16(const std::uint16_t* p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_8_halves(p)), 16));
  }
  static void store_f16(std::uint16_t* p, F x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  static void store_bf16(std::uint16_t* p, F x) {
    const I u = _mm256_castps_si256(x);
    const I last = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    const I r = _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), last), 16);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                     _mm_packus_epi32(_mm256_castsi256_si128(r), _mm256_extracti128_si256(r, 1)));
  }
  static void store_rounded(std::int32_t* p, F x) {
    _mm256_storeu_si256(reinterpret_cast<I*>(p), _mm256_cvtps_epi32(x));
  }

  static I load_words(const void* p) { return _mm256_loadu_si256(static_cast<const I*>(p)); }
  static I broadcast_word(const char* p) {
    std::int32_t word = 0;
    __builtin_memcpy(&word, p, 4);
    return _mm256_set1_epi32(word);
  }
  static I broadcast_int(std::int32_t x) { return _mm256_set1_epi32(x); }
  static F upper_half(I x) { return _mm256_castsi256_ps(_mm256_and_si256(x, _mm256_set1_epi32(-65536))); }
  static F lower_half(I x) { return _mm256_castsi256_ps(_mm256_slli_epi32(x, 16)); }
  static I as_words(F x) { return _mm256_castps_si256(x); }
  static I shift_up(I x) { return _mm256_slli_epi32(x, 16); }
  static I bit_or(I a, I b) { return _mm256_or_si256(a, b); }
  static I load_words_part(const void* p, std::int64_t lanes) {
    if (lanes == W) {
      return load_words(p);
    }
    alignas(32) std::uint32_t part[8] = {};
    __builtin_memcpy(part, p, static_cast<std::size_t>(lanes) * 4);
    return load_words(part);
  }
  static I load_u16_part(const std::uint16_t* p, std::int64_t lanes) {
    if (lanes == W) {
      return _mm256_cvtepu16_epi32(load_8_halves(p));
    }
    alignas(32) std::uint16_t part[8] = {};
    __builtin_memcpy(part, p, static_cast<std::size_t>(lanes) * 2);
    return _mm256_cvtepu16_epi32(load_8_halves(part));
  }
  static void store_words(void* p, I x, std::int64_t lanes) {
    if (lanes == W) {
      _mm256_storeu_si256(static_cast<I*>(p), x);
    } else {
      alignas(32) std::uint32_t part[8];
      _mm256_store_si256(reinterpret_cast<I*>(part), x);
      __builtin_memcpy(p, part, static_cast<std::size_t>(lanes) * 4);
    }
  }
  static F pair_dot(F acc, I, I) { return acc; }

  static I low_nibbles(I x) { return _mm256_and_si256(x, _mm256_set1_epi8(15)); }
  static I high_nibbles(I x) { return _mm256_and_si256(_mm256_srli_epi32(x, 4), _mm256_set1_epi8(15)); }
  static I sum_pairs(I acc, I x) { return _mm256_add_epi32(acc, _mm256_madd_epi16(x, _mm256_set1_epi16(1))); }
  static I dot_q8(I acc, I biased, I a) {
    // |w| <= 128 and |a| <= 127, so two products stay below 2^15: maddubs cannot saturate.
    const I w = _mm256_xor_si256(biased, _mm256_set1_epi8(-128));
    return sum_pairs(acc, _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(a, w)));
  }
  static I dot_q4(I acc, I w, I a) { return sum_pairs(acc, _mm256_maddubs_epi16(w, a)); }
  static F to_float(I x) { return _mm256_cvtepi32_ps(x); }

  static void transpose(I (&x)[8]) {
    I t[8];
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
      t[i] = _mm256_unpacklo_epi32(x[i], x[i + 1]);
      t[i + 1] = _mm256_unpackhi_epi32(x[i], x[i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
      x[i] = _mm256_unpacklo_epi64(t[i], t[i + 2]);
      x[i + 1] = _mm256_unpackhi_epi64(t[i], t[i + 2]);
      x[i + 2] = _mm256_unpacklo_epi64(t[i + 1], t[i + 3]);
      x[i + 3] = _mm256_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const I low = x[i];
      x[i] = _mm256_permute2x128_si256(low, x[i + 4], 0x20);
      x[i + 4] = _mm256_permute2x128_si256(low, x[i + 4], 0x31);
    }
  }
};

}  // namespace
}  // namespace isotone::cpu
