// The contraction's vector type for AVX-512 (F, BW, DQ, VL, VNNI), with AVX512_BF16's pair-dot where kWithPairDot.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace isotone::cpu {
namespace {

template <bool kWithPairDot>
struct VecAvx512 {
  using F = __m512;
  using I = __m512i;
  static constexpr int W = 16;
  static constexpr int kRegisters = 32;
  static constexpr int kRows = 12;
  static constexpr int kQuantRows = 8;
  static constexpr bool kPairDot = kWithPairDot;
  static constexpr int kQ8Bias = 128;

  static F zero() { return _mm512_setzero_ps(); }
  static F load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, F x) { _mm512_storeu_ps(p, x); }
  static F broadcast(const float* p) { return _mm512_set1_ps(*p); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F add(F a, F b) { return _mm512_add_ps(a, b); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F divide(F a, F b) { return _mm512_div_ps(a, b); }
  static F canonical(F x) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), x,
                                _mm512_castsi512_ps(_mm512_set1_epi32(0x7fc00000)));
  }
  static __m256i load_16_halves(const std::uint16_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static F load_f16(const std::uint16_t* p) { return _mm512_cvtph_ps(load_16_halves(p)); }
  static F load_bf16(const std::uint16_t* p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load_16_halves(p)), 16));
  }
  static void store_f16(std::uint16_t* p, F x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  static void store_bf16(std::uint16_t* p, F x) {  // x is canonical, so the rounding cannot overflow a NaN
    const I u = _mm512_castps_si512(x);
    const I last = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    const I r = _mm512_srli_epi32(_mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), last), 16);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(r));
  }
  static void store_rounded(std::int32_t* p, F x) { _mm512_storeu_si512(p, _mm512_cvtps_epi32(x)); }

  static I load_words(const void* p) { return _mm512_loadu_si512(p); }
  static I broadcast_word(const char* p) {
    std::int32_t word = 0;
    __builtin_memcpy(&word, p, 4);
    return _mm512_set1_epi32(word);
  }
  static I broadcast_int(std::int32_t x) { return _mm512_set1_epi32(x); }
  static F upper_half(I x) { return _mm512_castsi512_ps(_mm512_and_si512(x, _mm512_set1_epi32(-65536))); }
  static F lower_half(I x) { return _mm512_castsi512_ps(_mm512_slli_epi32(x, 16)); }
  static I as_words(F x) { return _mm512_castps_si512(x); }
  static I shift_up(I x) { return _mm512_slli_epi32(x, 16); }
  static I bit_or(I a, I b) { return _mm512_or_si512(a, b); }
  static __mmask16 mask(std::int64_t lanes) { return static_cast<__mmask16>((1U << lanes) - 1U); }
  static I load_words_part(const void* p, std::int64_t lanes) { return _mm512_maskz_loadu_epi32(mask(lanes), p); }
  static I load_u16_part(const std::uint16_t* p, std::int64_t lanes) {
    return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask(lanes), p));
  }
  static void store_words(void* p, I x, std::int64_t lanes) { _mm512_mask_storeu_epi32(p, mask(lanes), x); }

  static F pair_dot([[maybe_unused]] F acc, [[maybe_unused]] I a, [[maybe_unused]] I b) {
#if defined(__AVX512BF16__)
    return _mm512_dpbf16_ps(acc, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
#else
    return acc;
#endif
  }
  static I low_nibbles(I x) {
    return _mm512_and_si512(x, _mm512_set1_epi8(15));
  }
  static I high_nibbles(I x) {
    return _mm512_and_si512(_mm512_srli_epi32(x, 4), _mm512_set1_epi8(15));
  }
  static I dot_q8(I acc, I w, I a) {
    return _mm512_dpbusd_epi32(acc, w, a);
  }
  static I dot_q4(I acc, I w, I a) {
    return _mm512_dpbusd_epi32(acc, w, a);
  }
  static F to_float(I x) {
    return _mm512_cvtepi32_ps(x);
  }

  static void transpose(I (&x)[16]) {
    I t[16];
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 2) {
      t[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
      t[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {
      x[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
      x[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
      x[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
      x[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      t[i] = _mm512_shuffle_i32x4(x[i], x[i + 4], 0x88);
      t[i + 4] = _mm512_shuffle_i32x4(x[i], x[i + 4], 0xdd);
      t[i + 8] = _mm512_shuffle_i32x4(x[i + 8], x[i + 12], 0x88);
      t[i + 12] = _mm512_shuffle_i32x4(x[i + 8], x[i + 12], 0xdd);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      x[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
      x[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
      x[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
      x[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd);
    }
  }
};

}  // namespace
}  // namespace isotone::cpu
