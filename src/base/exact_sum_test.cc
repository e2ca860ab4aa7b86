// The exact sum: against integer arithmetic, in any order, split anyhow, with wide ranges and special values.
#include "base/exact_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace isotone {
namespace {

std::vector<float> values(int n, int low, int high, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> mantissa(-2.0F, 2.0F);
  std::uniform_int_distribution<int> exponent(low, high);
  std::vector<float> out(static_cast<std::size_t>(n));
  for (float& x : out) {
    x = std::ldexp(mantissa(random), exponent(random));
  }
  return out;
}

TEST(ExactSum, SmallRangesEqualIntegers) {
  // Multiples of 2^-30 below 2^4: sums fit 64-bit integers, squares 128-bit ones.
  std::mt19937 random(1);
  std::vector<float> x(100003);
  __int128 sum = 0;
  __int128 squares = 0;
  for (float& v : x) {
    const std::int64_t m = static_cast<std::int64_t>(random() >> 8) - (1 << 23);
    const int shift = static_cast<int>(random() % 8);
    v = std::ldexp(static_cast<float>(m), shift - 30);
    sum += m << shift;
    squares += static_cast<__int128>(m << shift) * (m << shift);
  }
  ExactSum s;
  s.add(x);
  ExactSum q;
  q.add_squares(x);
  EXPECT_EQ(s.round(), std::ldexp(static_cast<double>(static_cast<long double>(sum)), -30));
  EXPECT_EQ(q.round(), std::ldexp(static_cast<double>(squares), -60));
}

TEST(ExactSum, OrderAndGroupingDoNotShow) {
  for (const int range : {2, 20, 60, 120}) {
    std::vector<float> x = values(20011, -range, std::min(range, 125), 7);
    ExactSum one_by_one;
    for (const float v : x) {
      one_by_one.add(v);
    }
    ExactSum squares_one_by_one;
    for (const float v : x) {
      squares_one_by_one.add_square(v);
    }
    std::shuffle(x.begin(), x.end(), std::mt19937(3));
    ExactSum all;
    all.add(x);
    ExactSum left;
    ExactSum right;
    left.add_squares(std::span(x).first(7777));
    right.add_squares(std::span(x).subspan(7777));
    right.merge(left);
    EXPECT_EQ(all.round(), one_by_one.round()) << range;
    EXPECT_EQ(right.round(), squares_one_by_one.round()) << range;
    EXPECT_EQ(all.round_to_float(), one_by_one.round_to_float());
  }
}

TEST(ExactSum, LongSpansUseThreads) {
  const std::vector<float> x = values(1000003, -12, 3, 5);
  ExactSum serial;
  for (std::size_t i = 0; i < x.size(); i += 1000) {
    serial.add_squares(std::span(x).subspan(i, std::min<std::size_t>(1000, x.size() - i)));
  }
  ExactSum parallel;
  parallel.add_squares(x);
  EXPECT_EQ(serial.round(), parallel.round());
}

TEST(ExactSum, CancelsExactly) {
  std::vector<float> x = values(5000, -100, 100, 9);
  std::vector<float> y = x;
  for (float& v : y) {
    v = -v;
  }
  std::reverse(y.begin(), y.end());
  ExactSum s;
  s.add(x);
  s.add(1.5F);
  s.add(y);
  EXPECT_EQ(s.round(), 1.5);
}

TEST(ExactSum, RoundsTiesToEven) {
  ExactSum s;
  s.add(1.0F);
  s.add(0x1p-24F);
  EXPECT_EQ(s.round_to_float(), 1.0F);
  s.add(0x1p-100F);
  EXPECT_EQ(s.round_to_float(), 1.0F + 0x1p-23F);
  ExactSum t;
  t.add(-1.0F);
  t.add(-0x1p-53F);
  EXPECT_EQ(t.round(), -1.0);
  t.add(-0x1p-120F);
  EXPECT_EQ(t.round(), -1.0 - 0x1p-52);
}

TEST(ExactSum, SpecialValues) {
  const float inf = INFINITY;
  ExactSum s;
  EXPECT_EQ(s.round(), 0.0);
  s.add(std::vector<float>(100, inf));
  EXPECT_EQ(s.round(), inf);
  s.add(-inf);
  EXPECT_TRUE(std::isnan(s.round()));
  ExactSum n;
  n.add_squares(std::vector<float>{1, 2, NAN, 4, 5, 6, 7, 8, 9});
  EXPECT_TRUE(std::isnan(n.round_to_float()));
  ExactSum big;
  big.add(std::vector<float>(64, 3e38F));
  EXPECT_EQ(big.round_to_float(), inf);
  EXPECT_EQ(big.round(), 64.0 * static_cast<double>(3e38F));
  ExactSum tiny;
  tiny.add(std::vector<float>(64, 1e-40F));
  EXPECT_EQ(tiny.round(), 0.0);
  ExactSum small;
  small.add_squares(std::vector<float>(64, 0x1p-126F));
  EXPECT_EQ(small.round(), 0x1p-246);
  EXPECT_EQ(small.round_to_float(), 0.0F);
}

}  // namespace
}  // namespace isotone
