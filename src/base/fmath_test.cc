// The fixed functions: errors against the C library in double, special values, and independence of the flush mode.
#include "base/fmath.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>

#include "base/parallel.h"

namespace isotone {
namespace {

constexpr float kInf = INFINITY;

bool is_canonical_nan(float x) {
  return std::bit_cast<std::uint32_t>(x) == 0x7fc00000U;
}

double ulps(float y, double want) {
  if (std::isnan(want)) {
    return is_canonical_nan(y) ? 0 : 1e9;
  }
  if (std::fabs(want) < 0x1p-126) {
    return y == 0 || std::fabs(y) == 0x1p-126F ? 0 : 1e9;
  }
  if (std::isinf(y) || std::isinf(want)) {
    return std::fabs(want) >= 0x1.fffffep127 && std::fabs(y) >= 0x1.fffffep127F && (y > 0) == (want > 0) ? 0 : 1e9;
  }
  int e = 0;
  std::frexp(want, &e);
  return std::fabs(static_cast<double>(y) - want) / std::ldexp(1.0, e - 24);
}

struct Function {
  const char* name;
  float (*ours)(float);
  double (*reference)(double);
  double limit;
};

const Function kFunctions[] = {
    {"exp", fmath::exp, [](double x) { return std::exp(x); }, 1.0},
    {"log", fmath::log, [](double x) { return std::log(x); }, 1.0},
    {"sin", fmath::sin, [](double x) { return std::sin(x); }, 1.0},
    {"cos", fmath::cos, [](double x) { return std::cos(x); }, 1.0},
    {"tanh", fmath::tanh, [](double x) { return std::tanh(x); }, 1.5},
    {"erf", fmath::erf, [](double x) { return std::erf(x); }, 1.5},
};

TEST(Fmath, ErrorsOverAllExponents) {
  for (const Function& f : kFunctions) {
    double worst = 0;
    for (std::uint64_t i = 0; i < (std::uint64_t{1} << 32); i += 5003) {
      const float x = std::bit_cast<float>(static_cast<std::uint32_t>(i));
      const double d = std::fabs(x) < 0x1p-126F ? std::copysign(0.0, x) : static_cast<double>(x);
      worst = std::max(worst, ulps(f.ours(x), f.reference(d)));
    }
    EXPECT_LE(worst, f.limit) << f.name;
  }
}

TEST(Fmath, Pow) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> unit(0, 1);
  double worst = 0;
  for (int i = 0; i < 300000; ++i) {
    const float x = static_cast<float>(std::exp2(unit(random) * 60 - 30));
    const float y = static_cast<float>((unit(random) * 256 - 128) / std::log2(static_cast<double>(x)));
    worst = std::max(worst, ulps(fmath::pow(x, y), std::pow(static_cast<double>(x), static_cast<double>(y))));
  }
  EXPECT_LE(worst, 1.0);
  const float cases[] = {0.0F,         -0.0F,      1,          -1,    2,   -2,    3,      -3,
                         0.5F,         -0.5F,      kInf,       -kInf, NAN, 1e30F, -1e30F, 16777216.0F,
                         -16777217.0F, 8388609.0F, -8388607.0F};
  for (const float x : cases) {
    for (const float y : cases) {
      EXPECT_LE(ulps(fmath::pow(x, y), std::pow(static_cast<double>(x), static_cast<double>(y))), 1.0)
          << x << " ^ " << y;
      EXPECT_EQ(std::signbit(fmath::pow(x, y)), std::signbit(std::pow(x, y)) && !std::isnan(std::pow(x, y)))
          << x << " ^ " << y;
    }
  }
}

TEST(Fmath, SpecialValues) {
  EXPECT_EQ(fmath::exp(0.0F), 1.0F);
  EXPECT_EQ(fmath::exp(kInf), kInf);
  EXPECT_EQ(fmath::exp(-kInf), 0.0F);
  EXPECT_EQ(fmath::log(1.0F), 0.0F);
  EXPECT_EQ(fmath::log(0.0F), -kInf);
  EXPECT_EQ(fmath::log(-0.0F), -kInf);
  EXPECT_TRUE(is_canonical_nan(fmath::log(-1.0F)));
  EXPECT_TRUE(std::signbit(fmath::sin(-0.0F)) && std::signbit(fmath::tanh(-0.0F)) && std::signbit(fmath::erf(-0.0F)));
  EXPECT_EQ(fmath::tanh(kInf), 1.0F);
  EXPECT_EQ(fmath::erf(-kInf), -1.0F);
  EXPECT_TRUE(is_canonical_nan(fmath::sin(kInf)) && is_canonical_nan(fmath::cos(-kInf)));
}

TEST(Fmath, TheSameUnderEitherFlushMode) {
  std::mt19937 random(2);
  for (int i = 0; i < 200000; ++i) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    const float y = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    std::uint32_t got[2][7];
    for (int mode = 0; mode < 2; ++mode) {
      const auto all = [&] {
        for (int k = 0; k < 6; ++k) {
          got[mode][k] = std::bit_cast<std::uint32_t>(kFunctions[k].ours(x));
        }
        got[mode][6] = std::bit_cast<std::uint32_t>(fmath::pow(x, y));
      };
      if (mode == 1) {
        const FlushSubnormals flush;
        all();
      } else {
        all();
      }
    }
    for (int k = 0; k < 7; ++k) {
      ASSERT_EQ(got[0][k], got[1][k]) << k << " at " << x << " " << y;
    }
  }
}

TEST(Fmath64, Errors) {
  const auto ulp = [](double y, long double want) {
    int e = 0;
    std::frexp(want, &e);
    return static_cast<double>(std::fabs(static_cast<long double>(y) - want) / std::ldexp(1.0L, e - 53));
  };
  std::mt19937_64 random(4);
  std::uniform_real_distribution<double> unit(0, 1);
  double worst = 0;
  for (int i = 0; i < 200000; ++i) {
    const double x = unit(random);
    worst = std::max(worst, ulp(fmath64::exp(x * 1400 - 700), std::exp(static_cast<long double>(x * 1400 - 700))));
    const double p = std::exp2(x * 200 - 100);
    worst = std::max(worst, ulp(fmath64::log(p), std::log(static_cast<long double>(p))));
    const double a = std::exp2(x * 60 - 10);
    worst = std::max(worst, ulp(fmath64::sin(a), std::sin(static_cast<long double>(a))));
    worst = std::max(worst, ulp(fmath64::cos(-a), std::cos(static_cast<long double>(-a))));
    const double y = (unit(random) * 2000 - 1000) / std::log2(p);
    worst =
        std::max(worst, ulp(fmath64::pow(p, y), std::pow(static_cast<long double>(p), static_cast<long double>(y))));
  }
  EXPECT_LE(worst, 1.05);
  EXPECT_EQ(fmath64::pow(0.9, 0.0), 1.0);
  EXPECT_EQ(fmath64::pow(-2.0, 3.0), -8.0);
  EXPECT_EQ(fmath64::exp(1e9), INFINITY);
  EXPECT_EQ(fmath64::exp(-1e9), 0.0);
  EXPECT_EQ(fmath64::log(0.0), -INFINITY);
  EXPECT_TRUE(std::isnan(fmath64::log(-1.0)));
}

}  // namespace
}  // namespace isotone
