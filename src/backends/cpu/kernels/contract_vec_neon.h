// The contraction's vector type for Armv8 NEON. bf16 pairs by widening and two fmas: bfdot's order is another one.
#pragma once

#include <arm_neon.h>

#include <cstdint>

namespace isotone::cpu {
namespace {

struct VecNeon {
  using F = float32x4_t;
  using I = uint32x4_t;
  static constexpr int W = 4;
  static constexpr int kRegisters = 32;
  static constexpr int kRows = 6;
  static constexpr int kQuantRows = 4;
  static constexpr bool kPairDot = false;
  static constexpr int kQ8Bias = 0;

  static F zero() { return vdupq_n_f32(0.0F); }
  static F load(const float* p) { return vld1q_f32(p); }
  static void store(float* p, F x) { vst1q_f32(p, x); }
  static F broadcast(const float* p) { return vld1q_dup_f32(p); }
  static F fma(F a, F b, F c) { return vfmaq_f32(c, a, b); }
  static F add(F a, F b) { return vaddq_f32(a, b); }
  static F mul(F a, F b) { return vmulq_f32(a, b); }
  static F divide(F a, F b) { return vdivq_f32(a, b); }
  static F canonical(F x) { return vbslq_f32(vceqq_f32(x, x), x, vreinterpretq_f32_u32(vdupq_n_u32(0x7fc00000U))); }
  static F load_f16(const std::uint16_t* p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
  static F load_bf16(const std::uint16_t* p) { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16)); }
  static void store_f16(std::uint16_t* p, F x) { vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(x))); }
  static void store_bf16(std::uint16_t* p, F x) {
    const I u = vreinterpretq_u32_f32(x);
    const I last = vandq_u32(vshrq_n_u32(u, 16), vdupq_n_u32(1));
    vst1_u16(p, vshrn_n_u32(vaddq_u32(vaddq_u32(u, vdupq_n_u32(0x7fff)), last), 16));
  }
  static void store_rounded(std::int32_t* p, F x) { vst1q_s32(p, vcvtnq_s32_f32(x)); }

  static I load_words(const void* p) { return vreinterpretq_u32_u8(vld1q_u8(static_cast<const std::uint8_t*>(p))); }
  static I broadcast_word(const char* p) {
    std::uint32_t word = 0;
    __builtin_memcpy(&word, p, 4);
    return vdupq_n_u32(word);
  }
  static I broadcast_int(std::int32_t x) { return vdupq_n_u32(static_cast<std::uint32_t>(x)); }
  static F upper_half(I x) { return vreinterpretq_f32_u32(vandq_u32(x, vdupq_n_u32(0xffff0000U))); }
  static F lower_half(I x) { return vreinterpretq_f32_u32(vshlq_n_u32(x, 16)); }
  static I as_words(F x) { return vreinterpretq_u32_f32(x); }
  static I shift_up(I x) { return vshlq_n_u32(x, 16); }
  static I bit_or(I a, I b) { return vorrq_u32(a, b); }
  static I load_words_part(const void* p, std::int64_t lanes) {
    std::uint32_t part[4] = {};
    __builtin_memcpy(part, p, static_cast<std::size_t>(lanes) * 4);
    return vld1q_u32(part);
  }
  static I load_u16_part(const std::uint16_t* p, std::int64_t lanes) {
    std::uint16_t part[4] = {};
    __builtin_memcpy(part, p, static_cast<std::size_t>(lanes) * 2);
    return vmovl_u16(vld1_u16(part));
  }
  static void store_words(void* p, I x, std::int64_t lanes) {
    std::uint32_t part[4];
    vst1q_u32(part, x);
    __builtin_memcpy(p, part, static_cast<std::size_t>(lanes) * 4);
  }
  static F pair_dot(F acc, I, I) { return acc; }

  static I low_nibbles(I x) { return vandq_u32(x, vdupq_n_u32(0x0f0f0f0fU)); }
  static I high_nibbles(I x) { return vandq_u32(vshrq_n_u32(x, 4), vdupq_n_u32(0x0f0f0f0fU)); }
  static I dot_signed(I acc, int8x16_t w, int8x16_t a) {
    const int16x8_t low = vmull_s8(vget_low_s8(w), vget_low_s8(a));
    const int16x8_t high = vmull_high_s8(w, a);
    const int32x4_t sums = vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high));
    return vreinterpretq_u32_s32(vaddq_s32(vreinterpretq_s32_u32(acc), sums));
  }
  static I dot_q8(I acc, I w, I a) {
    const I flipped = veorq_u32(w, vdupq_n_u32(0x80808080U));
    return dot_signed(acc, vreinterpretq_s8_u32(flipped), vreinterpretq_s8_u32(a));
  }
  static I dot_q4(I acc, I w, I a) { return dot_signed(acc, vreinterpretq_s8_u32(w), vreinterpretq_s8_u32(a)); }
  static F to_float(I x) { return vcvtq_f32_s32(vreinterpretq_s32_u32(x)); }

  static void transpose(I (&x)[4]) {
    const I a = vtrn1q_u32(x[0], x[1]);
    const I b = vtrn2q_u32(x[0], x[1]);
    const I c = vtrn1q_u32(x[2], x[3]);
    const I d = vtrn2q_u32(x[2], x[3]);
    const auto low = [](I p, I q) { return vcombine_u32(vget_low_u32(p), vget_low_u32(q)); };
    const auto high = [](I p, I q) { return vcombine_u32(vget_high_u32(p), vget_high_u32(q)); };
    x[0] = low(a, c);
    x[1] = low(b, d);
    x[2] = high(a, c);
    x[3] = high(b, d);
  }
};

}  // namespace
}  // namespace isotone::cpu
