// The f64 functions: plain sequences of double fma, the same on every platform.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/fmath.h"

namespace isotone::fmath64 {
namespace {

constexpr double kMagic = 6755399441055744.0;  // 1.5 * 2^52
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kSmallest = std::numeric_limits<double>::min();
constexpr std::uint64_t kSqrtHalf = 0x3fe6a09e667f3bcdULL;

double fma(double a, double b, double c) {
  return __builtin_fma(a, b, c);
}

template <int N>
double polynomial(double x, const double (&c)[N]) {
  double p = c[N - 1];
  for (int i = N - 2; i >= 0; --i) {
    p = fma(p, x, c[i]);
  }
  return p;
}

/// p * 2^n for p near 1.
double scale(double p, std::int64_t n) {
  const std::int64_t e = std::bit_cast<std::int64_t>(p) + n * (std::int64_t{1} << 52);
  return e < (std::int64_t{1} << 52) ? 0.0 : std::bit_cast<double>(e);
}

/// x = 2^k * m with m in [sqrt(1/2), sqrt(2)).
double split_exponent(double x, double* m) {
  const std::uint64_t shifted = std::bit_cast<std::uint64_t>(x) - kSqrtHalf;
  *m = std::bit_cast<double>((shifted & 0x000fffffffffffffULL) + kSqrtHalf);
  return static_cast<double>(static_cast<std::int64_t>(shifted) >> 52);
}

struct Angle {
  double hi, lo;
  std::int64_t quadrant;
};

/// Payne and Hanek with 192 bits of 2/pi, for 2^20 <= |x| < infinity.
Angle reduce_large(double x) {
  constexpr std::uint64_t kTwoOverPi[20] = {
      0xa2f9836e4e441529ULL, 0xfc2757d1f534ddc0ULL, 0xdb6295993c439041ULL, 0xfe5163abdebbc561ULL,
      0xb7246e3a424dd2e0ULL, 0x06492eea09d1921cULL, 0xfe1deb1cb129a73eULL, 0xe88235f52ebb4484ULL,
      0xe99c7026b45f7e41ULL, 0x3991d639835339f4ULL, 0x9c845f8bbdf9283bULL, 0x1ff897ffde05980fULL,
      0xef2f118b5a0a6d1fULL, 0x6d367ecf27cb09b7ULL, 0x4f463f669e5fea2dULL, 0x7527bac7ebe5f17bULL,
      0x3d0739f78a5292eaULL, 0x6bfb5fb11f8d5d08ULL, 0x56033046fc7b6babULL, 0xf0cfbc209af4361dULL};
  using Wide = unsigned __int128;
  const std::uint64_t b = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t m = (b & 0x000fffffffffffffULL) | 0x0010000000000000ULL;
  const int e = static_cast<int>((b >> 52) & 2047U) - 1075;  // |x| = m * 2^e, e >= -32
  // A window of 192 bits that starts at bit `start` of 2/pi (zeros before the point), so that the product is in units
  // of 2^-190 after dropping multiples of 4.
  const int start = e - 2;
  std::uint64_t window[3];
  for (int i = 0; i < 3; ++i) {
    const int at = start + 64 * i;
    const int word = at >= 0 ? at / 64 : -((63 - at) / 64);
    const int bit = at - word * 64;
    const std::uint64_t left = word >= 0 ? kTwoOverPi[word] : 0;
    const std::uint64_t right = word + 1 >= 0 ? kTwoOverPi[word + 1] : 0;
    window[i] = bit == 0 ? left : (left << bit) | (right >> (64 - bit));
  }
  // The product modulo 2^192; its top two bits are the quadrant.
  const Wide p0 = static_cast<Wide>(window[2]) * m;
  const Wide p1 = static_cast<Wide>(window[1]) * m + static_cast<std::uint64_t>(p0 >> 64);
  const std::uint64_t top = window[0] * m + static_cast<std::uint64_t>(p1 >> 64);
  std::int64_t quadrant = static_cast<std::int64_t>(top >> 62);
  Wide fraction = (static_cast<Wide>(top << 2 | static_cast<std::uint64_t>(p1) >> 62) << 64) |
                  ((static_cast<std::uint64_t>(p1) << 2) | (static_cast<std::uint64_t>(p0) >> 62));
  const bool round_up = (fraction >> 127) != 0;
  if (round_up) {
    fraction = -fraction;
    ++quadrant;
  }
  // The magnitude as a pair of doubles, in quarter turns.
  const int zeros = static_cast<std::uint64_t>(fraction >> 64) != 0
                        ? std::countl_zero(static_cast<std::uint64_t>(fraction >> 64))
                        : 64;
  const Wide normal = fraction << zeros;
  const double unit = std::bit_cast<double>(static_cast<std::uint64_t>(1023 - zeros) << 52);
  double f_hi = static_cast<double>(static_cast<std::uint64_t>(normal >> 75)) * 0x1p-53 * unit;
  double f_lo = static_cast<double>(static_cast<std::uint64_t>(normal >> 22) & ((1ULL << 53) - 1)) * 0x1p-106 * unit;
  constexpr double kHalfPi = 1.57079632679489656e+00;
  constexpr double kHalfPiLo = 6.12323399573676604e-17;
  const double p = f_hi * kHalfPi;
  const double rest = fma(f_hi, kHalfPi, -p) + fma(f_hi, kHalfPiLo, f_lo * kHalfPi);
  double hi = p + rest;
  double lo = rest - (hi - p);
  const bool negative = (b >> 63) != 0;
  if (round_up != negative) {
    hi = -hi;
    lo = -lo;
  }
  return {hi, lo, negative ? -quadrant : quadrant};
}

Angle reduce(double x) {
  if (std::fabs(x) >= 0x1p20) {
    return reduce_large(x);
  }
  const double t = fma(x, 6.36619772367581382e-01, kMagic);
  const double n = kMagic - t;
  const double r1 = fma(n, 1.57079632679489656e+00, x);
  const double p = n * 6.12323399573676604e-17;
  const double r2 = r1 + p;
  const double back = r2 - r1;
  const double rest =
      ((r1 - (r2 - back)) + (p - back)) + fma(n, -1.49738490485916983e-33, fma(n, 6.12323399573676604e-17, -p));
  const double hi = r2 + rest;
  return {hi, (r2 - hi) + rest, -static_cast<std::int64_t>(n)};
}

double sine(double x, std::int64_t shift) {
  constexpr double cs[] = {-1.66666666666666657e-01, 8.33333333333333322e-03,  -1.98412698412698385e-04,
                           2.75573192239810941e-06,  -2.50521083823875973e-08, 1.60590427804535515e-10,
                           -7.64696127131778379e-13, 2.79124021463340010e-15};
  constexpr double cc[] = {4.16666666666666644e-02,  -1.38888888888888894e-03, 2.48015873015872982e-05,
                           -2.75573192239834901e-07, 2.08767569863402728e-09,  -1.14707450692965426e-11,
                           4.77937605949975195e-14,  -1.55180897293086099e-16};
  const Angle a = reduce(x);
  const std::int64_t q = a.quadrant + shift;
  const double s = a.hi * a.hi;
  double y = 0.0;
  if ((q & 1) == 0) {
    y = a.hi + fma(a.hi * s, polynomial(s, cs), a.lo);
  } else {
    const double half = 0.5 * s;
    const double w = 1.0 - half;
    y = w + (((1.0 - w) - half) + fma(s * s, polynomial(s, cc), -(a.hi * a.lo)));
  }
  return (q & 2) != 0 ? -y : y;
}

}  // namespace

double exp(double x) {
  constexpr double c[] = {5.00000000000000000e-01, 1.66666666666666713e-01, 4.16666666666666713e-02,
                          8.33333333332608381e-03, 1.38888888888837113e-03, 1.98412698750022792e-04,
                          2.48015873256774607e-05, 2.75572551700008879e-06, 2.75572734787185824e-07,
                          2.51053127296221029e-08, 2.09147553258932021e-09};
  if (!(x < 709.782712893384)) {
    return x != x ? kNan : kInf;
  }
  if (x < -709.0) {
    return 0.0;
  }
  const double t = fma(x, 1.44269504088896339e+00, kMagic);
  const double n = t - kMagic;
  const double r = fma(n, -2.31904681384629956e-17, fma(n, -6.93147180559945286e-01, x));
  return scale(1.0 + fma(r * r, polynomial(r, c), r), static_cast<std::int64_t>(n));
}

double log(double x) {
  constexpr double c[] = {6.66666666666666630e-01, 3.99999999999999911e-01, 2.85714285714358585e-01,
                          2.22222222197102970e-01, 1.81818186151772782e-01, 1.53845734500289683e-01,
                          1.33357110850084365e-01, 1.16865089173120454e-01, 1.18965585684121647e-01};
  if (!(x >= kSmallest)) {
    return x > -kSmallest ? -kInf : kNan;
  }
  if (x == kInf) {
    return x;
  }
  double m = 0.0;
  const double k = split_exponent(x, &m);
  const double f = m - 1.0;
  const double d = m + 1.0;
  const double q = f / d;
  const double q_lo = fma(-q, m - (d - 1.0), fma(-q, d, f)) / d;
  const double s = q * q;
  const double tail = fma(q * s, polynomial(s, c), q_lo + q_lo);
  const double big = k * 6.93147180369123816490e-01;  // the high 33 bits of ln 2: exact
  const double sum = big + (q + q);
  const double lost = (q + q) - (sum - big);
  return sum + (lost + fma(k, 1.90821492927058770002e-10, tail));
}

double sin(double x) {
  if (!(std::fabs(x) < kInf)) {
    return kNan;
  }
  return std::fabs(x) < 0x1p-27 ? x : sine(x, 0);
}

double cos(double x) {
  return std::fabs(x) < kInf ? sine(x, 1) : kNan;
}

double pow(double x, double y) {
  if (y == 0.0 || x == 1.0) {
    return 1.0;
  }
  if (x != x || y != y) {
    return kNan;
  }
  const double a = std::fabs(x) < kSmallest ? 0.0 : std::fabs(x);
  const double ay = std::fabs(y);
  const bool whole = ay >= 0x1p53 || static_cast<double>(static_cast<std::int64_t>(ay)) == ay;
  const bool odd = ay < 0x1p53 && whole && (static_cast<std::int64_t>(ay) & 1) != 0;
  const double sign = std::signbit(x) && odd ? -1.0 : 1.0;
  if (a == 1.0 && ay == kInf) {
    return 1.0;
  }
  if (a == 0.0 || a == kInf || ay == kInf) {
    return sign * ((a > 1.0) == (y > 0.0) ? kInf : 0.0);
  }
  if (std::signbit(x) && !whole) {
    return kNan;
  }
  // log2 as a pair, like the f32 function with wider constants.
  constexpr double c[] = {5.77078016355585310e-01, 4.12198583111132388e-01, 3.20598897975324204e-01,
                          2.62308189252976831e-01, 2.21953083118128947e-01, 1.92359350746583474e-01,
                          1.69727918309379194e-01, 1.51905370268613338e-01, 1.36193279013825885e-01,
                          1.44053234591518392e-01};
  constexpr double kC0 = 2.88539008177792677e+00;
  constexpr double kC1 = 9.61796693925975554e-01;
  double m = 0.0;
  const double k = split_exponent(a, &m);
  const double f = m - 1.0;
  const double d = m + 1.0;
  const double q = f / d;
  const double q_lo = fma(-q, m - (d - 1.0), fma(-q, d, f)) / d;
  const double s = q * q;
  const double s_lo = fma(q, q, -s) + (q + q) * q_lo;
  const double t = s * polynomial(s, c);
  const double u = kC1 + t;
  const double u_lo = 5.05776166481259068e-17 + (t - (u - kC1));
  const double v = s * u;
  const double v_lo = fma(s, u, -v) + fma(s, u_lo, s_lo * u);
  const double w = kC0 + v;
  const double w_lo = (v - (w - kC0)) + (4.07105474818620662e-17 + v_lo);
  const double l = q * w;
  const double l_lo = fma(q, w, -l) + fma(q, w_lo, q_lo * w);
  const double h = k + l;
  const double rest = (l - (h - k)) + l_lo;
  const double hi = h + rest;
  const double lo = rest - (hi - h);
  const double z = y * hi;
  if (z >= 1024.0) {
    return sign * kInf;
  }
  if (z < -1023.0) {
    return sign * 0.0;
  }
  const double z_lo = fma(y, hi, -z) + y * lo;
  constexpr double e[] = {6.93147180559945286e-01, 2.40226506959100722e-01, 5.55041086648215831e-02,
                          9.61812910762848382e-03, 1.33335581464284455e-03, 1.54035303933627545e-04,
                          1.52527338040511285e-05, 1.32154868159999775e-06, 1.01780860211854744e-07,
                          7.05489438634834805e-09, 4.44553030910510668e-10, 2.57335683087568922e-11,
                          1.37169623927375872e-12};
  const double n = (z + kMagic) - kMagic;
  const double r = (z - n) + z_lo;
  return sign * scale(fma(r, polynomial(r, e), 1.0), static_cast<std::int64_t>(n));
}

}  // namespace isotone::fmath64
