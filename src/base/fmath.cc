// Scalar instances of the f32 functions, and the reduction of large angles that all instances share.
#include "base/fmath.h"

#include "base/fmath_impl.h"

namespace isotone::fmath {

float exp(float x) {
  return exp_v(F1(x)).v;
}
float log(float x) {
  return log_v(F1(x)).v;
}
float sin(float x) {
  return sin_v(F1(x)).v;
}
float cos(float x) {
  return cos_v(F1(x)).v;
}
float tanh(float x) {
  return tanh_v(F1(x)).v;
}
float erf(float x) {
  return erf_v(F1(x)).v;
}
float pow(float x, float y) {
  return pow_v(F1(x), F1(y)).v;
}

ReducedAngle reduce_large_angle(float x) {
  // The first 320 bits of 2/pi after the point, 32 a word.
  constexpr std::uint32_t kTwoOverPi[10] = {0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599,
                                            0x3c439041, 0xfe5163ab, 0xdebbc561, 0xb7246e3a, 0x424dd2e0};
  using Wide = unsigned __int128;
  const std::uint32_t b = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t m = (b & 0x7fffffU) | 0x800000U;
  const int e = static_cast<int>((b >> 23) & 255U) - 150;  // |x| = m * 2^e
  // Bits of 2/pi whose product with 2^e is a multiple of 4 only turn full circles: start behind them.
  const int skip = e > 2 ? e - 2 : 0;
  const int word = skip / 32;
  const int bit = skip % 32;
  Wide window = 0;
  for (int i = 0; i < 4; ++i) {
    window = (window << 32) | kTwoOverPi[word + i];
  }
  window = (window << bit) >> 32;  // 96 bits from bit `skip` on
  Wide product = window * m;       // in units of 2^(e - skip - 96); shift to units of 2^-98
  const int shift = e - skip + 2;
  product = shift >= 0 ? product << shift : product >> -shift;
  std::int32_t quadrant = static_cast<std::int32_t>((product >> 98) & 3U);
  const std::int64_t fraction = static_cast<std::int64_t>(static_cast<std::uint64_t>(product >> 34));
  quadrant += fraction < 0 ? 1 : 0;
  double r = static_cast<double>(fraction) * 8.51530395021638614e-20;  // pi/2 * 2^-64
  if ((b >> 31) != 0) {
    r = -r;
    quadrant = -quadrant;
  }
  const float hi = static_cast<float>(r);
  return {hi, static_cast<float>(r - static_cast<double>(hi)), quadrant};
}

}  // namespace isotone::fmath
