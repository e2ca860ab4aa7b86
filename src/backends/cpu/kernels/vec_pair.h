// Sixteen lanes made of narrower vectors (Pair) or of single floats (Lanes): every kernel is written for sixteen lanes,
// because a plain reduction has sixteen chains.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/fmath_impl.h"
#include "base/half.h"

namespace isotone::cpu {

template <class H>
struct PairMask {
  H lo, hi;
  friend ISOTONE_INLINE PairMask operator&(PairMask a, PairMask b) { return {a.lo & b.lo, a.hi & b.hi}; }
  friend ISOTONE_INLINE PairMask operator|(PairMask a, PairMask b) { return {a.lo | b.lo, a.hi | b.hi}; }
  friend ISOTONE_INLINE PairMask operator!(PairMask a) { return {!a.lo, !a.hi}; }
  friend ISOTONE_INLINE PairMask operator==(PairMask a, PairMask b) { return {a.lo == b.lo, a.hi == b.hi}; }
  friend ISOTONE_INLINE bool any(PairMask a) { return any(a.lo | a.hi); }
};

template <class H, class HM>
struct PairInt {
  using M = PairMask<HM>;
  H lo, hi;
  ISOTONE_INLINE PairInt() = default;
  ISOTONE_INLINE PairInt(H a, H b) : lo(a), hi(b) {}
  explicit ISOTONE_INLINE PairInt(std::int32_t x) : lo(x), hi(x) {}
  friend ISOTONE_INLINE PairInt operator+(PairInt a, PairInt b) { return {a.lo + b.lo, a.hi + b.hi}; }
  friend ISOTONE_INLINE PairInt operator-(PairInt a, PairInt b) { return {a.lo - b.lo, a.hi - b.hi}; }
  friend ISOTONE_INLINE PairInt operator&(PairInt a, PairInt b) { return {a.lo & b.lo, a.hi & b.hi}; }
  friend ISOTONE_INLINE PairInt operator|(PairInt a, PairInt b) { return {a.lo | b.lo, a.hi | b.hi}; }
  friend ISOTONE_INLINE PairInt operator^(PairInt a, PairInt b) { return {a.lo ^ b.lo, a.hi ^ b.hi}; }
  friend ISOTONE_INLINE M operator<(PairInt a, PairInt b) { return {a.lo < b.lo, a.hi < b.hi}; }
  friend ISOTONE_INLINE M operator==(PairInt a, PairInt b) { return {a.lo == b.lo, a.hi == b.hi}; }
  friend ISOTONE_INLINE PairInt select(M m, PairInt a, PairInt b) {
    return {select(m.lo, a.lo, b.lo), select(m.hi, a.hi, b.hi)};
  }
};
template <int N, class H, class HM>
ISOTONE_INLINE PairInt<H, HM> shl(PairInt<H, HM> a) {
  return {shl<N>(a.lo), shl<N>(a.hi)};
}
template <int N, class H, class HM>
ISOTONE_INLINE PairInt<H, HM> sar(PairInt<H, HM> a) {
  return {sar<N>(a.lo), sar<N>(a.hi)};
}

template <class H>
struct Pair {
  using I = PairInt<typename H::I, typename H::M>;
  using M = PairMask<typename H::M>;
  static constexpr int kHalf = H::kLanes;
  static constexpr int kLanes = 2 * kHalf;
  H lo, hi;
  ISOTONE_INLINE Pair() = default;
  ISOTONE_INLINE Pair(H a, H b) : lo(a), hi(b) {}
  explicit ISOTONE_INLINE Pair(float x) : lo(x), hi(x) {}
  friend ISOTONE_INLINE Pair operator+(Pair a, Pair b) { return {a.lo + b.lo, a.hi + b.hi}; }
  friend ISOTONE_INLINE Pair operator-(Pair a, Pair b) { return {a.lo - b.lo, a.hi - b.hi}; }
  friend ISOTONE_INLINE Pair operator*(Pair a, Pair b) { return {a.lo * b.lo, a.hi * b.hi}; }
  friend ISOTONE_INLINE Pair operator/(Pair a, Pair b) { return {a.lo / b.lo, a.hi / b.hi}; }
  friend ISOTONE_INLINE M operator<(Pair a, Pair b) { return {a.lo < b.lo, a.hi < b.hi}; }
  friend ISOTONE_INLINE M operator<=(Pair a, Pair b) { return {a.lo <= b.lo, a.hi <= b.hi}; }
  friend ISOTONE_INLINE M operator==(Pair a, Pair b) { return {a.lo == b.lo, a.hi == b.hi}; }
  friend ISOTONE_INLINE Pair fma(Pair a, Pair b, Pair c) { return {fma(a.lo, b.lo, c.lo), fma(a.hi, b.hi, c.hi)}; }
  friend ISOTONE_INLINE Pair sqrt(Pair a) { return {sqrt(a.lo), sqrt(a.hi)}; }
  friend ISOTONE_INLINE I bits(Pair a) { return {bits(a.lo), bits(a.hi)}; }
  friend ISOTONE_INLINE Pair select(M m, Pair a, Pair b) {
    return {select(m.lo, a.lo, b.lo), select(m.hi, a.hi, b.hi)};
  }
  friend ISOTONE_INLINE I to_int(Pair a) { return {to_int(a.lo), to_int(a.hi)}; }
  static ISOTONE_INLINE Pair from_bits(I a) { return {H::from_bits(a.lo), H::from_bits(a.hi)}; }
  static ISOTONE_INLINE Pair from_int(I a) { return {H::from_int(a.lo), H::from_int(a.hi)}; }
  static ISOTONE_INLINE I load_int(const std::int32_t* p) { return {H::load_int(p), H::load_int(p + kHalf)}; }
  template <class T>
  static ISOTONE_INLINE Pair load(const T* p) {
    return {H::load(p), H::load(p + kHalf)};
  }
  template <class T>
  ISOTONE_INLINE void store(T* p) const {
    lo.store(p);
    hi.store(p + kHalf);
  }
};

/// Sixteen single floats: the portable instance.
struct LanesMask {
  bool v[16];
#define ISOTONE_LANES(R, expression) \
  {                                  \
    R r;                             \
    for (int i = 0; i < 16; ++i) {   \
      r.v[i] = expression;           \
    }                                \
    return r;                        \
  }
  friend ISOTONE_INLINE LanesMask operator&(const LanesMask& a, const LanesMask& b)
      ISOTONE_LANES(LanesMask, a.v[i] && b.v[i]) friend ISOTONE_INLINE LanesMask
      operator|(const LanesMask& a, const LanesMask& b)
          ISOTONE_LANES(LanesMask, a.v[i] || b.v[i]) friend ISOTONE_INLINE LanesMask
          operator!(const LanesMask& a) ISOTONE_LANES(LanesMask, !a.v[i]) friend ISOTONE_INLINE LanesMask
          operator==(const LanesMask& a, const LanesMask& b)
              ISOTONE_LANES(LanesMask, a.v[i] == b.v[i]) friend ISOTONE_INLINE bool any(const LanesMask& a) {
    bool r = false;
    for (const bool b : a.v) {
      r = r || b;
    }
    return r;
  }
};

struct LanesInt {
  using M = LanesMask;
  std::uint32_t v[16];
  ISOTONE_INLINE LanesInt() = default;
  explicit ISOTONE_INLINE LanesInt(std::int32_t x) {
    for (auto& lane : v) {
      lane = static_cast<std::uint32_t>(x);
    }
  }
  friend ISOTONE_INLINE LanesInt operator+(const LanesInt& a, const LanesInt& b)
      ISOTONE_LANES(LanesInt, a.v[i] + b.v[i]) friend ISOTONE_INLINE LanesInt
      operator-(const LanesInt& a, const LanesInt& b)
          ISOTONE_LANES(LanesInt, a.v[i] - b.v[i]) friend ISOTONE_INLINE LanesInt
          operator&(const LanesInt& a, const LanesInt& b)
              ISOTONE_LANES(LanesInt, a.v[i] & b.v[i]) friend ISOTONE_INLINE LanesInt
              operator|(const LanesInt& a, const LanesInt& b)
                  ISOTONE_LANES(LanesInt, a.v[i] | b.v[i]) friend ISOTONE_INLINE LanesInt
                  operator^(const LanesInt& a, const LanesInt& b)
                      ISOTONE_LANES(LanesInt, a.v[i] ^ b.v[i]) friend ISOTONE_INLINE M
                      operator<(const LanesInt& a, const LanesInt& b)
                          ISOTONE_LANES(M, static_cast<std::int32_t>(a.v[i]) <
                                               static_cast<std::int32_t>(b.v[i])) friend ISOTONE_INLINE M
                          operator==(const LanesInt& a, const LanesInt& b)
                              ISOTONE_LANES(M, a.v[i] == b.v[i]) friend ISOTONE_INLINE LanesInt
      select(const M& m, const LanesInt& a, const LanesInt& b) ISOTONE_LANES(LanesInt, m.v[i] ? a.v[i] : b.v[i])
};
template <int N>
ISOTONE_INLINE LanesInt shl(const LanesInt& a) ISOTONE_LANES(LanesInt, a.v[i] << N) template <int N>
ISOTONE_INLINE LanesInt sar(const LanesInt& a)
    ISOTONE_LANES(LanesInt, static_cast<std::uint32_t>(static_cast<std::int32_t>(a.v[i]) >> N))

        struct Lanes {
  using OneByOne = void;  // not worth widening further
  using I = LanesInt;
  using M = LanesMask;
  static constexpr int kLanes = 16;
  float v[16];
  ISOTONE_INLINE Lanes() = default;
  explicit ISOTONE_INLINE Lanes(float x) {
    for (float& lane : v) {
      lane = x;
    }
  }
  friend ISOTONE_INLINE Lanes operator+(const Lanes& a, const Lanes& b)
      ISOTONE_LANES(Lanes, a.v[i] + b.v[i]) friend ISOTONE_INLINE Lanes
      operator-(const Lanes& a, const Lanes& b) ISOTONE_LANES(Lanes, a.v[i] - b.v[i]) friend ISOTONE_INLINE Lanes
      operator*(const Lanes& a, const Lanes& b) ISOTONE_LANES(Lanes, a.v[i] * b.v[i]) friend ISOTONE_INLINE Lanes
      operator/(const Lanes& a, const Lanes& b) ISOTONE_LANES(Lanes, a.v[i] / b.v[i]) friend ISOTONE_INLINE M
      operator<(const Lanes& a, const Lanes& b) ISOTONE_LANES(M, a.v[i] < b.v[i]) friend ISOTONE_INLINE M
      operator<=(const Lanes& a, const Lanes& b) ISOTONE_LANES(M, a.v[i] <= b.v[i]) friend ISOTONE_INLINE M
      operator==(const Lanes& a, const Lanes& b) ISOTONE_LANES(M, a.v[i] == b.v[i]) friend ISOTONE_INLINE Lanes
      fma(const Lanes& a, const Lanes& b, const Lanes& c)
          ISOTONE_LANES(Lanes, __builtin_fmaf(a.v[i], b.v[i], c.v[i])) friend ISOTONE_INLINE Lanes sqrt(const Lanes& a)
              ISOTONE_LANES(Lanes, __builtin_sqrtf(a.v[i])) friend ISOTONE_INLINE I bits(const Lanes& a)
                  ISOTONE_LANES(I, std::bit_cast<std::uint32_t>(a.v[i])) friend ISOTONE_INLINE Lanes
      select(const M& m, const Lanes& a, const Lanes& b)
          ISOTONE_LANES(Lanes, m.v[i] ? a.v[i] : b.v[i]) friend ISOTONE_INLINE I
      to_int(const Lanes& a) ISOTONE_LANES(
          I, static_cast<std::uint32_t>(static_cast<std::int32_t>(__builtin_rintf(a.v[i])))) static ISOTONE_INLINE Lanes
      from_bits(const I& a) ISOTONE_LANES(Lanes, std::bit_cast<float>(a.v[i])) static ISOTONE_INLINE Lanes
      from_int(const I& a)
          ISOTONE_LANES(Lanes, static_cast<float>(static_cast<std::int32_t>(a.v[i]))) static ISOTONE_INLINE I
      load_int(const std::int32_t* p) ISOTONE_LANES(I, static_cast<std::uint32_t>(p[i])) template <class T>
      static ISOTONE_INLINE Lanes load(const T* p) ISOTONE_LANES(Lanes, static_cast<float>(p[i])) template <class T>
      ISOTONE_INLINE void store(T* p) const {
    for (int i = 0; i < 16; ++i) {
      p[i] = T(v[i]);
    }
  }
#undef ISOTONE_LANES
};

}  // namespace isotone::cpu

// Functions of sixteen single floats go lane by lane: the same sequence for each lane, and much less code to compile.
namespace isotone::fmath {

#define ISOTONE_LANE_BY_LANE(f)                           \
  template <>                                             \
  ISOTONE_INLINE cpu::Lanes f<cpu::Lanes>(cpu::Lanes x) { \
    cpu::Lanes y;                                         \
    for (int i = 0; i < 16; ++i) {                        \
      y.v[i] = f(F1(x.v[i])).v;                           \
    }                                                     \
    return y;                                             \
  }
ISOTONE_LANE_BY_LANE(exp_v)
ISOTONE_LANE_BY_LANE(log_v)
ISOTONE_LANE_BY_LANE(sin_v)
ISOTONE_LANE_BY_LANE(cos_v)
ISOTONE_LANE_BY_LANE(tanh_v)
ISOTONE_LANE_BY_LANE(erf_v)
#undef ISOTONE_LANE_BY_LANE
template <>
ISOTONE_INLINE cpu::Lanes pow_v<cpu::Lanes>(cpu::Lanes x, cpu::Lanes y) {
  cpu::Lanes z;
  for (int i = 0; i < 16; ++i) {
    z.v[i] = pow_v(F1(x.v[i]), F1(y.v[i])).v;
  }
  return z;
}

}  // namespace isotone::fmath
