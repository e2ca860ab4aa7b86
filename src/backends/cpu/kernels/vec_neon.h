// Four lanes of NEON (AArch64), and sixteen as pairs of pairs.
#pragma once

#include <arm_neon.h>

#include "backends/cpu/kernels/vec_pair.h"

namespace isotone::cpu {

struct NeonMask {
  uint32x4_t v;
  friend ISOTONE_INLINE NeonMask operator&(NeonMask a, NeonMask b) { return {vandq_u32(a.v, b.v)}; }
  friend ISOTONE_INLINE NeonMask operator|(NeonMask a, NeonMask b) { return {vorrq_u32(a.v, b.v)}; }
  friend ISOTONE_INLINE NeonMask operator!(NeonMask a) { return {vmvnq_u32(a.v)}; }
  friend ISOTONE_INLINE NeonMask operator==(NeonMask a, NeonMask b) { return {vceqq_u32(a.v, b.v)}; }
  friend ISOTONE_INLINE bool any(NeonMask a) { return vmaxvq_u32(a.v) != 0; }
};

struct NeonInt {
  using M = NeonMask;
  int32x4_t v;
  ISOTONE_INLINE NeonInt() = default;
  ISOTONE_INLINE NeonInt(int32x4_t x) : v(x) {}
  explicit ISOTONE_INLINE NeonInt(std::int32_t x) : v(vdupq_n_s32(x)) {}
  friend ISOTONE_INLINE NeonInt operator+(NeonInt a, NeonInt b) { return vaddq_s32(a.v, b.v); }
  friend ISOTONE_INLINE NeonInt operator-(NeonInt a, NeonInt b) { return vsubq_s32(a.v, b.v); }
  friend ISOTONE_INLINE NeonInt operator&(NeonInt a, NeonInt b) { return vandq_s32(a.v, b.v); }
  friend ISOTONE_INLINE NeonInt operator|(NeonInt a, NeonInt b) { return vorrq_s32(a.v, b.v); }
  friend ISOTONE_INLINE NeonInt operator^(NeonInt a, NeonInt b) { return veorq_s32(a.v, b.v); }
  friend ISOTONE_INLINE M operator<(NeonInt a, NeonInt b) { return {vcltq_s32(a.v, b.v)}; }
  friend ISOTONE_INLINE M operator==(NeonInt a, NeonInt b) { return {vceqq_s32(a.v, b.v)}; }
  friend ISOTONE_INLINE NeonInt select(M m, NeonInt a, NeonInt b) { return vbslq_s32(m.v, a.v, b.v); }
};
template <int N>
ISOTONE_INLINE NeonInt shl(NeonInt a) {
  return vshlq_n_s32(a.v, N);
}
template <int N>
ISOTONE_INLINE NeonInt sar(NeonInt a) {
  return vshrq_n_s32(a.v, N);
}

struct NeonQuarter {
  using I = NeonInt;
  using M = NeonMask;
  static constexpr int kLanes = 4;
  float32x4_t v;
  ISOTONE_INLINE NeonQuarter() = default;
  ISOTONE_INLINE NeonQuarter(float32x4_t x) : v(x) {}
  explicit ISOTONE_INLINE NeonQuarter(float x) : v(vdupq_n_f32(x)) {}
  friend ISOTONE_INLINE NeonQuarter operator+(NeonQuarter a, NeonQuarter b) { return vaddq_f32(a.v, b.v); }
  friend ISOTONE_INLINE NeonQuarter operator-(NeonQuarter a, NeonQuarter b) { return vsubq_f32(a.v, b.v); }
  friend ISOTONE_INLINE NeonQuarter operator*(NeonQuarter a, NeonQuarter b) { return vmulq_f32(a.v, b.v); }
  friend ISOTONE_INLINE NeonQuarter operator/(NeonQuarter a, NeonQuarter b) { return vdivq_f32(a.v, b.v); }
  friend ISOTONE_INLINE M operator<(NeonQuarter a, NeonQuarter b) { return {vcltq_f32(a.v, b.v)}; }
  friend ISOTONE_INLINE M operator<=(NeonQuarter a, NeonQuarter b) { return {vcleq_f32(a.v, b.v)}; }
  friend ISOTONE_INLINE M operator==(NeonQuarter a, NeonQuarter b) { return {vceqq_f32(a.v, b.v)}; }
  friend ISOTONE_INLINE NeonQuarter fma(NeonQuarter a, NeonQuarter b, NeonQuarter c) {
    return vfmaq_f32(c.v, a.v, b.v);
  }
  friend ISOTONE_INLINE NeonQuarter sqrt(NeonQuarter a) { return vsqrtq_f32(a.v); }
  friend ISOTONE_INLINE I bits(NeonQuarter a) { return vreinterpretq_s32_f32(a.v); }
  friend ISOTONE_INLINE NeonQuarter select(M m, NeonQuarter a, NeonQuarter b) { return vbslq_f32(m.v, a.v, b.v); }
  friend ISOTONE_INLINE I to_int(NeonQuarter a) { return vcvtnq_s32_f32(a.v); }
  static ISOTONE_INLINE NeonQuarter from_bits(I a) { return vreinterpretq_f32_s32(a.v); }
  static ISOTONE_INLINE NeonQuarter from_int(I a) { return vcvtq_f32_s32(a.v); }
  static ISOTONE_INLINE I load_int(const std::int32_t* p) { return vld1q_s32(p); }
  static ISOTONE_INLINE NeonQuarter load(const float* p) { return vld1q_f32(p); }
  static ISOTONE_INLINE NeonQuarter load(const bf16* p) {
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(reinterpret_cast<const std::uint16_t*>(p)), 16));
  }
  // FPCR.FZ leaves half-precision conversions alone (FZ16 does not), so f16 keeps its subnormals.
  static ISOTONE_INLINE NeonQuarter load(const f16* p) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(reinterpret_cast<const std::uint16_t*>(p))));
  }
  ISOTONE_INLINE void store(float* p) const { vst1q_f32(p, v); }
  ISOTONE_INLINE void store(bf16* p) const {
    const uint32x4_t u = vreinterpretq_u32_f32(v);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(u, 16), vdupq_n_u32(1));
    const uint32x4_t r = vaddq_u32(vaddq_u32(u, vdupq_n_u32(0x7fff)), odd);
    vst1_u16(reinterpret_cast<std::uint16_t*>(p), vshrn_n_u32(r, 16));
  }
  ISOTONE_INLINE void store(f16* p) const {
    vst1_u16(reinterpret_cast<std::uint16_t*>(p), vreinterpret_u16_f16(vcvt_f16_f32(v)));
  }
};

using Neon = Pair<Pair<NeonQuarter>>;

}  // namespace isotone::cpu
