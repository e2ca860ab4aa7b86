// F4: the vector type of the attention tiles for NEON (AArch64). See attention_simd.h, which includes it.
#pragma once

#include <arm_neon.h>

#include <cstring>

#include "base/fmath_impl.h"
#include "base/half.h"

namespace isotone::cpu::attention {
namespace {

struct M4 {
  uint32x4_t v;
  friend ISOTONE_INLINE M4 operator&(M4 a, M4 b) { return {vandq_u32(a.v, b.v)}; }
  friend ISOTONE_INLINE M4 operator|(M4 a, M4 b) { return {vorrq_u32(a.v, b.v)}; }
  friend ISOTONE_INLINE M4 operator!(M4 a) { return {vmvnq_u32(a.v)}; }
  friend ISOTONE_INLINE bool any(M4 a) { return vmaxvq_u32(a.v) != 0; }
};
struct I4 {
  int32x4_t v;
  ISOTONE_INLINE I4() = default;
  ISOTONE_INLINE I4(int32x4_t x) : v(x) {}
  ISOTONE_INLINE I4(std::int32_t x) : v(vdupq_n_s32(x)) {}
  friend ISOTONE_INLINE I4 operator+(I4 a, I4 b) { return vaddq_s32(a.v, b.v); }
  friend ISOTONE_INLINE I4 operator-(I4 a, I4 b) { return vsubq_s32(a.v, b.v); }
  friend ISOTONE_INLINE I4 operator&(I4 a, I4 b) { return vandq_s32(a.v, b.v); }
  friend ISOTONE_INLINE I4 operator|(I4 a, I4 b) { return vorrq_s32(a.v, b.v); }
  friend ISOTONE_INLINE I4 operator^(I4 a, I4 b) { return veorq_s32(a.v, b.v); }
  friend ISOTONE_INLINE M4 operator<(I4 a, I4 b) { return {vcltq_s32(a.v, b.v)}; }
  friend ISOTONE_INLINE M4 operator==(I4 a, I4 b) { return {vceqq_s32(a.v, b.v)}; }
  friend ISOTONE_INLINE I4 select(M4 m, I4 a, I4 b) { return vbslq_s32(m.v, a.v, b.v); }
};
template <int N>
ISOTONE_INLINE I4 shl(I4 a) {
  return vshlq_n_s32(a.v, N);
}
template <int N>
ISOTONE_INLINE I4 sar(I4 a) {
  return vshrq_n_s32(a.v, N);
}

struct F4 {
  using I = I4;
  using M = M4;
  static constexpr int kLanes = 4;
  static constexpr int kPanel = 4;
  static constexpr int kRows = 6;
  float32x4_t v;
  ISOTONE_INLINE F4() = default;
  ISOTONE_INLINE F4(float32x4_t x) : v(x) {}
  ISOTONE_INLINE F4(float x) : v(vdupq_n_f32(x)) {}
  friend ISOTONE_INLINE F4 operator+(F4 a, F4 b) { return vaddq_f32(a.v, b.v); }
  friend ISOTONE_INLINE F4 operator-(F4 a, F4 b) { return vsubq_f32(a.v, b.v); }
  friend ISOTONE_INLINE F4 operator*(F4 a, F4 b) { return vmulq_f32(a.v, b.v); }
  friend ISOTONE_INLINE F4 operator/(F4 a, F4 b) { return vdivq_f32(a.v, b.v); }
  friend ISOTONE_INLINE M4 operator<(F4 a, F4 b) { return {vcltq_f32(a.v, b.v)}; }
  friend ISOTONE_INLINE M4 operator<=(F4 a, F4 b) { return {vcleq_f32(a.v, b.v)}; }
  friend ISOTONE_INLINE M4 operator==(F4 a, F4 b) { return {vceqq_f32(a.v, b.v)}; }
  friend ISOTONE_INLINE F4 fma(F4 a, F4 b, F4 c) { return vfmaq_f32(c.v, a.v, b.v); }
  friend ISOTONE_INLINE F4 larger(F4 a, F4 b) { return vmaxnmq_f32(a.v, b.v); }
  friend ISOTONE_INLINE I4 bits(F4 a) { return vreinterpretq_s32_f32(a.v); }
  friend ISOTONE_INLINE F4 select(M4 m, F4 a, F4 b) { return vbslq_f32(m.v, a.v, b.v); }
  static ISOTONE_INLINE F4 from_bits(I4 a) { return vreinterpretq_f32_s32(a.v); }
  static ISOTONE_INLINE F4 from_int(I4 a) { return vcvtq_f32_s32(a.v); }
  static ISOTONE_INLINE F4 load(const float* p) { return vld1q_f32(p); }
  ISOTONE_INLINE void store(float* p) const { vst1q_f32(p, v); }
  static ISOTONE_INLINE uint16x4_t load_raw16(const std::uint16_t* p, std::int64_t n) {
    if (n >= 4) {
      return vld1_u16(p);
    }
    std::uint16_t some[4] = {};
    std::memcpy(some, p, static_cast<std::size_t>(n) * 2);
    return vld1_u16(some);
  }
  static ISOTONE_INLINE F4 load_some(const float* p, std::int64_t n) {
    if (n >= 4) {
      return load(p);
    }
    float some[4] = {};
    std::memcpy(some, p, static_cast<std::size_t>(n) * 4);
    return load(some);
  }
  static ISOTONE_INLINE I4 load_words16(const std::uint16_t* p, std::int64_t n) {
    return vreinterpretq_s32_u32(vmovl_u16(load_raw16(p, n)));
  }
  static ISOTONE_INLINE F4 widen_f16(const std::uint16_t* p, std::int64_t n) {
    return vcvt_f32_f16(vreinterpret_f16_u16(load_raw16(p, n)));
  }
  ISOTONE_INLINE void store_some(float* p, std::int64_t n) const {
    float all[4];
    store(all);
    std::memcpy(p, all, static_cast<std::size_t>(n < 4 ? n : 4) * 4);
  }
  static ISOTONE_INLINE void store_words16(std::uint16_t* p, I4 x, std::int64_t n) {
    std::uint16_t all[4];
    vst1_u16(all, vmovn_u32(vreinterpretq_u32_s32(x.v)));
    std::memcpy(p, all, static_cast<std::size_t>(n < 4 ? n : 4) * 2);
  }
  static ISOTONE_INLINE I4 narrow_f16(F4 x) {
    return vreinterpretq_s32_u32(vmovl_u16(vreinterpret_u16_f16(vcvt_f16_f32(x.v))));
  }
  static ISOTONE_INLINE F4 round_f16(F4 x) { return vcvt_f32_f16(vcvt_f16_f32(x.v)); }
  static ISOTONE_INLINE M4 in_range(int at, int lo, int hi) {
    constexpr std::int32_t kIndex[4] = {0, 1, 2, 3};
    const I4 index = I4(vld1q_s32(kIndex)) + I4(at);
    return (I4(lo - 1) < index) & (index < I4(hi));
  }
  static ISOTONE_INLINE float fold_add(const F4* c) {
    const F4 a = (c[0] + c[2]) + (c[1] + c[3]);
    const float32x2_t b = vadd_f32(vget_low_f32(a.v), vget_high_f32(a.v));
    return vget_lane_f32(b, 0) + vget_lane_f32(b, 1);
  }
  static ISOTONE_INLINE float fold_max(const F4* c) {
    return vmaxnmvq_f32(larger(larger(c[0], c[2]), larger(c[1], c[3])).v);
  }
};
ISOTONE_INLINE F4 divide(F4 a, F4 b) {
  return a / b;
}
ISOTONE_INLINE F4 exp_small(F4 x) {
  return fmath::exp_v(x);
}
using Vec = F4;

}  // namespace
}  // namespace isotone::cpu::attention
