// exp, log, sin, cos, tanh, erf, pow in f32 as fixed sequences of operations over a vector type V, so that scalar and
// vector code give the same bits (docs/numerics.md, section 10). V brings `V::I`, `V::M` and the small set of functions
// shown by F1 below; no function branches on values (large sine arguments are reduced lane by lane, the same each).
// Every result is flushed and every NaN canonical whatever mode the thread is in.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#define ISOTONE_INLINE __attribute__((always_inline)) inline

namespace isotone::fmath {

// ---- one lane: the scalar instance of the vector interface ----
struct M1 {
  bool v;
  friend ISOTONE_INLINE M1 operator&(M1 a, M1 b) { return {a.v && b.v}; }
  friend ISOTONE_INLINE M1 operator|(M1 a, M1 b) { return {a.v || b.v}; }
  friend ISOTONE_INLINE M1 operator!(M1 a) { return {!a.v}; }
  friend ISOTONE_INLINE M1 operator==(M1 a, M1 b) { return {a.v == b.v}; }
  friend ISOTONE_INLINE bool any(M1 a) { return a.v; }
};

struct I1 {
  std::int32_t v;
  ISOTONE_INLINE I1() = default;
  ISOTONE_INLINE I1(std::int32_t x) : v(x) {}
  ISOTONE_INLINE I1(std::uint32_t x) : v(static_cast<std::int32_t>(x)) {}
  static ISOTONE_INLINE I1 wrap(std::uint32_t x) { return I1(static_cast<std::int32_t>(x)); }
  [[nodiscard]] ISOTONE_INLINE std::uint32_t u() const { return static_cast<std::uint32_t>(v); }
  friend ISOTONE_INLINE I1 operator+(I1 a, I1 b) { return wrap(a.u() + b.u()); }
  friend ISOTONE_INLINE I1 operator-(I1 a, I1 b) { return wrap(a.u() - b.u()); }
  friend ISOTONE_INLINE I1 operator&(I1 a, I1 b) { return wrap(a.u() & b.u()); }
  friend ISOTONE_INLINE I1 operator|(I1 a, I1 b) { return wrap(a.u() | b.u()); }
  friend ISOTONE_INLINE I1 operator^(I1 a, I1 b) { return wrap(a.u() ^ b.u()); }
  friend ISOTONE_INLINE M1 operator<(I1 a, I1 b) { return {a.v < b.v}; }
  friend ISOTONE_INLINE I1 select(M1 m, I1 a, I1 b) { return m.v ? a : b; }
  friend ISOTONE_INLINE M1 operator==(I1 a, I1 b) { return {a.v == b.v}; }
};
template <int N>
ISOTONE_INLINE I1 shl(I1 a) {
  return I1::wrap(a.u() << N);
}
template <int N>
ISOTONE_INLINE I1 sar(I1 a) {
  return I1(a.v >> N);
}

struct F1 {
  using I = I1;
  using M = M1;
  static constexpr int kLanes = 1;
  float v;
  ISOTONE_INLINE F1() = default;
  ISOTONE_INLINE F1(float x) : v(x) {}
  friend ISOTONE_INLINE F1 operator+(F1 a, F1 b) { return a.v + b.v; }
  friend ISOTONE_INLINE F1 operator-(F1 a, F1 b) { return a.v - b.v; }
  friend ISOTONE_INLINE F1 operator*(F1 a, F1 b) { return a.v * b.v; }
  friend ISOTONE_INLINE F1 operator/(F1 a, F1 b) { return a.v / b.v; }
  friend ISOTONE_INLINE M1 operator<(F1 a, F1 b) { return {a.v < b.v}; }
  friend ISOTONE_INLINE M1 operator<=(F1 a, F1 b) { return {a.v <= b.v}; }
  friend ISOTONE_INLINE M1 operator==(F1 a, F1 b) { return {a.v == b.v}; }
  friend ISOTONE_INLINE F1 fma(F1 a, F1 b, F1 c) { return __builtin_fmaf(a.v, b.v, c.v); }
  friend ISOTONE_INLINE F1 sqrt(F1 a) { return __builtin_sqrtf(a.v); }
  friend ISOTONE_INLINE I1 bits(F1 a) { return I1(std::bit_cast<std::int32_t>(a.v)); }
  friend ISOTONE_INLINE F1 select(M1 m, F1 a, F1 b) { return m.v ? a : b; }
  /// Round to the nearest integer, ties to even; |a| < 2^31.
  friend ISOTONE_INLINE I1 to_int(F1 a) { return I1(static_cast<std::int32_t>(__builtin_rintf(a.v))); }
  static ISOTONE_INLINE F1 from_bits(I1 a) { return std::bit_cast<float>(a.v); }
  static ISOTONE_INLINE F1 from_int(I1 a) { return static_cast<float>(a.v); }
  static ISOTONE_INLINE F1 load(const float* p) { return *p; }
  ISOTONE_INLINE void store(float* p) const { *p = v; }
  static ISOTONE_INLINE I1 load_int(const std::int32_t* p) { return I1(*p); }
};

// ---- shared pieces ----
template <class V>
ISOTONE_INLINE V quiet_nan() {
  return V::from_bits(typename V::I(0x7fc00000));
}
template <class V>
ISOTONE_INLINE V infinity() {
  return V::from_bits(typename V::I(0x7f800000));
}
template <class V>
ISOTONE_INLINE V abs(V x) {
  return V::from_bits(bits(x) & typename V::I(0x7fffffff));
}
/// The sign bit of `x`, alone.
template <class V>
ISOTONE_INLINE typename V::I sign_bit(V x) {
  return bits(x) & typename V::I(static_cast<std::int32_t>(0x80000000U));
}
/// |x| (not NaN) with subnormals made zero, decided by bits and so independent of the thread's mode.
template <class V>
ISOTONE_INLINE V flushed_abs(V x) {
  using I = typename V::I;
  const I a = bits(x) & I(0x7fffffff);
  return V::from_bits(select(a < I(0x00800000), I(0), a));
}
template <class V>
ISOTONE_INLINE typename V::M is_nan(V x) {
  using I = typename V::I;
  return I(0x7f800000) < (bits(x) & I(0x7fffffff));
}
/// `x`, or the one NaN that is ever stored.
template <class V>
ISOTONE_INLINE V canonical(V x) {
  return select(x == x, x, quiet_nan<V>());
}
/// Horner's rule by fma, coefficients from the constant term up.
template <class V, int N>
ISOTONE_INLINE V polynomial(V x, const float (&c)[N]) {
  V p(c[N - 1]);
  for (int i = N - 2; i >= 0; --i) {
    p = fma(p, x, V(c[i]));
  }
  return p;
}
/// p * 2^n for p near 1 (from 2/3 to 3/2): infinity above the range, +0 below the normal numbers.
template <class V>
ISOTONE_INLINE V scale(V p, typename V::I n) {
  using I = typename V::I;
  const I e = bits(p) + shl<23>(n);
  return V::from_bits(select(e < I(0x00800000), I(0), e));
}
inline constexpr float kRoundMagic = 12582912.0F;  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits

// ---- the functions ----
template <class V>
ISOTONE_INLINE V exp_v(V x) {
  using I = typename V::I;
  constexpr float c[] = {5.000000000e-01F, 1.666666716e-01F, 4.166646302e-02F,
                         8.333310485e-03F, 1.393373124e-03F, 1.989107986e-04F};
  const V t = fma(x, V(1.442695022e+00F), V(kRoundMagic));
  const V n = t - V(kRoundMagic);
  V r = fma(n, V(-6.931471825e-01F), x);
  r = fma(n, V(1.904654212e-09F), r);
  const V p = V(1.0F) + fma(r * r, polynomial(r, c), r);
  V y = scale(p, bits(t) - I(std::bit_cast<std::int32_t>(kRoundMagic)));
  y = select(V(88.722839F) < x, infinity<V>(), y);
  y = select(x < V(-87.5F), V(0.0F), y);
  return select(is_nan(x), quiet_nan<V>(), y);
}

template <class V>
ISOTONE_INLINE V log_v(V x) {
  using I = typename V::I;
  constexpr float c[] = {3.333333433e-01F,  -2.499998957e-01F, 2.000001073e-01F,  -1.666800082e-01F, 1.428652406e-01F,
                         -1.245074347e-01F, 1.103778332e-01F,  -1.064619198e-01F, 1.053086445e-01F,  -6.201500073e-02F};
  constexpr std::int32_t kSqrtHalf = 0x3f3504f3;
  const I shifted = bits(x) - I(kSqrtHalf);
  const V k = V::from_int(sar<23>(shifted));
  const V f = V::from_bits((shifted & I(0x007fffff)) + I(kSqrtHalf)) - V(1.0F);
  const V z = f * f;
  V y = fma(z * f, polynomial(f, c), z * V(-0.5F));
  const V big = k * V(0.693145751953125F);  // exact: 16 bits times 8
  const V s = big + f;
  y = y + fma(k, V(1.428606765e-06F), f - (s - big));
  y = s + y;
  const I b = bits(x);
  y = select(b == I(0x7f800000), infinity<V>(), y);
  y = select((b < I(0)) | (I(0x7f800000) < b), quiet_nan<V>(), y);
  return select((b & I(0x7fffffff)) < I(0x00800000), V::from_bits(I(static_cast<std::int32_t>(0xff800000U))), y);
}

/// An angle modulo pi/2 as a pair of floats, and the quadrant it was in (its two low bits count).
struct ReducedAngle {
  float hi, lo;
  std::int32_t quadrant;
};
/// Payne and Hanek's reduction with 96 bits of 2/pi, for 2^-7 * 2^24 <= |x| < infinity.
ReducedAngle reduce_large_angle(float x);

template <class V>
struct Angle {
  V hi, lo;
  typename V::I quadrant;
};

template <class V>
ISOTONE_INLINE Angle<V> reduce_angle(V x) {
  using I = typename V::I;
  const V t = fma(x, V(6.366197467e-01F), V(kRoundMagic));
  const V n = V(kRoundMagic) - t;  // minus the quadrant
  const V r1 = fma(n, V(1.570796371e+00F), x);
  const V p = n * V(-4.371138829e-08F);
  const V r2 = r1 + p;
  const V back = r2 - r1;  // what r2 lost, by Knuth's two-sum: either term may be the larger
  const V rest =
      ((r1 - (r2 - back)) + (p - back)) + fma(n, V(-1.715124510e-15F), fma(n, V(-4.371138829e-08F), V(0.0F) - p));
  Angle<V> a;
  a.hi = r2 + rest;
  a.lo = (r2 - a.hi) + rest;
  a.quadrant = bits(t) - I(std::bit_cast<std::int32_t>(kRoundMagic));
  const auto large = (V(100000.0F) < abs(x)) & (abs(x) < infinity<V>());
  if (any(large)) [[unlikely]] {
    float in[V::kLanes], hi[V::kLanes], lo[V::kLanes];
    std::int32_t q[V::kLanes];
    x.store(in);
    for (int i = 0; i < V::kLanes; ++i) {
      const bool mine = __builtin_fabsf(in[i]) > 100000.0F && __builtin_fabsf(in[i]) < __builtin_inff();
      const ReducedAngle one = mine ? reduce_large_angle(in[i]) : ReducedAngle{0.0F, 0.0F, 0};
      hi[i] = one.hi;
      lo[i] = one.lo;
      q[i] = one.quadrant;
    }
    a.hi = select(large, V::load(hi), a.hi);
    a.lo = select(large, V::load(lo), a.lo);
    a.quadrant = select(large, V::load_int(q), a.quadrant);
  }
  return a;
}

/// Sine where `shift` is 0, cosine where it is 1.
template <class V>
ISOTONE_INLINE V sine(V x, int shift) {
  using I = typename V::I;
  constexpr float cs[] = {-1.666666716e-01F, 8.333331905e-03F, -1.984008559e-04F, 2.724986416e-06F};
  constexpr float cc[] = {4.166666791e-02F, -1.388888806e-03F, 2.480059993e-05F, -2.730090785e-07F};
  const Angle<V> a = reduce_angle(x);
  const I q = a.quadrant + I(shift);
  const V s = a.hi * a.hi;
  const V sin_r = a.hi + fma(a.hi * s, polynomial(s, cs), a.lo);
  const V half = s * V(0.5F);
  const V w = V(1.0F) - half;
  const V cos_r = w + (((V(1.0F) - w) - half) + fma(s * s, polynomial(s, cc), V(0.0F) - a.hi * a.lo));
  const V y = select((q & I(1)) == I(1), cos_r, sin_r);
  return V::from_bits(bits(y) ^ shl<30>(q & I(2)));
}
template <class V>
ISOTONE_INLINE V sin_v(V x) {
  const V tiny = V::from_bits(bits(flushed_abs(x)) | sign_bit(x));
  const V y = select(abs(x) < V(0x1p-12F), tiny, sine(x, 0));
  return select(abs(x) < infinity<V>(), y, quiet_nan<V>());
}
template <class V>
ISOTONE_INLINE V cos_v(V x) {
  return select(abs(x) < infinity<V>(), sine(x, 1), quiet_nan<V>());
}

template <class V>
ISOTONE_INLINE V tanh_v(V x) {
  constexpr float c[] = {-3.333333433e-01F, 1.333330423e-01F,  -5.395925790e-02F,
                         2.176891826e-02F,  -8.343945257e-03F, 2.292744815e-03F};
  const V a = flushed_abs(x);
  const V s = a * a;
  const V small = fma(a * s, polynomial(s, c), a);
  const V big = V(1.0F) - V(2.0F) / (exp_v(a + a) + V(1.0F));
  const V y = select(a < V(0.625F), small, big);
  return select(is_nan(x), quiet_nan<V>(), V::from_bits(bits(y) | sign_bit(x)));
}

template <class V>
ISOTONE_INLINE V erf_v(V x) {
  constexpr float small_c[] = {1.283791661e-01F, -3.761263490e-01F, 1.128371805e-01F, -2.686066553e-02F,
                               5.204226822e-03F, -8.179632132e-04F, 8.529401384e-05F};
  // log(erfc(a)) on [0.89, 4]; from 4 on erf is 1 in f32.
  constexpr float big_c[] = {2.086706372e-04F,  -1.129655838e+00F, -6.331419349e-01F, -1.083459035e-01F,
                             2.495748922e-02F,  -3.933182452e-03F, 2.806691627e-04F,  3.487033973e-05F,
                             -1.163820343e-05F, 1.261059310e-06F,  -5.272686820e-08F};
  const V a = flushed_abs(x);
  const V small = fma(a, polynomial(a * a, small_c), a);
  const V t = select(a < V(4.0F), a, V(4.0F));
  const V big = V(1.0F) - exp_v(polynomial(t, big_c));
  const V y = select(a < V(0.9F), small, big);
  return select(is_nan(x), quiet_nan<V>(), V::from_bits(bits(y) | sign_bit(x)));
}

/// log2 of a positive normal number as a pair: about 2^-34 relative.
template <class V>
ISOTONE_INLINE void log2_pair(V x, V* hi, V* lo) {
  using I = typename V::I;
  constexpr float c[] = {5.770780444e-01F, 4.122001231e-01F, 3.203418851e-01F, 2.759887874e-01F};
  constexpr std::int32_t kSqrtHalf = 0x3f3504f3;
  const I shifted = bits(x) - I(kSqrtHalf);
  const V k = V::from_int(sar<23>(shifted));
  const V m = V::from_bits((shifted & I(0x007fffff)) + I(kSqrtHalf));
  // q = (m - 1) / (m + 1)
  const V f = m - V(1.0F);
  const V d = m + V(1.0F);
  const V d_lo = m - (d - V(1.0F));
  const V q = f / d;
  const V minus_q = V(0.0F) - q;
  const V q_lo = fma(minus_q, d_lo, fma(minus_q, d, f)) / d;
  const V s = q * q;
  const V s_lo = fma(q, q, V(0.0F) - s) + (q + q) * q_lo;
  // log2(m) = q * (2/ln2 + s * (2/(3 ln2) + s * ...))
  const V t = s * polynomial(s, c);
  const V u = V(9.617967010e-01F) + t;
  const V u_lo = V(-7.028461813e-09F) + (t - (u - V(9.617967010e-01F)));
  const V v = s * u;
  const V v_lo = fma(s, u, V(0.0F) - v) + fma(s, u_lo, s_lo * u);
  const V w = V(2.885390043e+00F) + v;
  const V w_lo = (v - (w - V(2.885390043e+00F))) + (V(3.851926067e-08F) + v_lo);
  const V l = q * w;
  const V l_lo = fma(q, w, V(0.0F) - l) + fma(q, w_lo, q_lo * w);
  const V h = k + l;
  const V rest = (l - (h - k)) + l_lo;
  *hi = h + rest;
  *lo = rest - (*hi - h);
}

template <class V>
ISOTONE_INLINE V pow_v(V x, V y) {
  using I = typename V::I;
  constexpr float c[] = {6.931471825e-01F, 2.402265072e-01F, 5.550410971e-02F, 9.618056938e-03F,
                         1.333350199e-03F, 1.546144485e-04F, 1.529732435e-05F};
  const V a = flushed_abs(x);
  const V ay = flushed_abs(y);
  V hi, lo;
  log2_pair(a, &hi, &lo);
  V z = y * hi;
  V z_lo = fma(y, hi, V(0.0F) - z) + y * lo;
  const auto over = !(z < V(128.0F));  // NaN too (infinity times zero), replaced below
  const auto under = z < V(-151.0F);
  z = select(over, V(128.0F), select(under, V(-151.0F), z));
  z_lo = select(over | under, V(0.0F), z_lo);
  const I n = to_int(z);
  const V r = (z - V::from_int(n)) + z_lo;
  V p = scale(fma(r, polynomial(r, c), V(1.0F)), n);
  // Powers of zero and infinity, then signs, then the cases that are not numbers or always one.
  const auto grows = (V(1.0F) < a) == (sign_bit(y) == I(0));
  const auto base_edge = (a == V(0.0F)) | (a == infinity<V>());
  const V edge = select(grows, infinity<V>(), V(0.0F));
  p = select(base_edge | (ay == infinity<V>()), edge, p);
  p = select((a == V(1.0F)), V(1.0F), p);
  const V yc = select(ay < V(16777216.0F), ay, V(16777216.0F));
  const I yi = to_int(yc);
  const auto whole = V::from_int(yi) == yc;
  const auto odd = whole & ((yi & I(1)) == I(1));
  p = V::from_bits(select(odd, bits(p) | sign_bit(x), bits(p)));
  const auto negative = bits(x) < I(0);
  p = select(negative & !whole & !base_edge, quiet_nan<V>(), p);
  p = select(is_nan(x) | is_nan(y), quiet_nan<V>(), p);
  return select((ay == V(0.0F)) | (x == V(1.0F)), V(1.0F), p);
}

}  // namespace isotone::fmath
