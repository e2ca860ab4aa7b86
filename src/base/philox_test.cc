// Philox against the published known answers (Random123's kat_vectors), and the distributions made from it.
#include "base/philox.h"

#include <gtest/gtest.h>

#include <cmath>

namespace isotone {
namespace {

TEST(Philox, KnownAnswers) {
  const Philox zero(0);
  EXPECT_EQ(zero.block({0, 0, 0, 0}), (Philox::Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const Philox ones(~std::uint64_t{0});
  EXPECT_EQ(ones.block({~0U, ~0U, ~0U, ~0U}), (Philox::Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  const Philox pi((std::uint64_t{0x299f31d0} << 32) | 0xa4093822);
  EXPECT_EQ(pi.block({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (Philox::Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, KeyDependsOnSeedAndName) {
  EXPECT_NE(Philox(1, "dropout").bits(0), Philox(2, "dropout").bits(0));
  EXPECT_NE(Philox(1, "dropout").bits(0), Philox(1, "init").bits(0));
  EXPECT_EQ(Philox(1, "init").bits(77), Philox(1, "init").bits(77));
}

TEST(Philox, Moments) {
  const Philox random(3, "moments");
  double mean = 0;
  double square = 0;
  double uniform = 0;
  int heads = 0;
  constexpr int kCount = 200000;
  for (int i = 0; i < kCount; ++i) {
    const float z = random.normal(static_cast<std::uint64_t>(i));
    const float u = random.uniform(static_cast<std::uint64_t>(i), 1);
    ASSERT_TRUE(u >= 0.0F && u < 1.0F && std::isfinite(z));
    mean += z;
    square += static_cast<double>(z) * z;
    uniform += u;
    heads += random.bernoulli(0.25F, static_cast<std::uint64_t>(i), 2) ? 1 : 0;
  }
  EXPECT_NEAR(mean / kCount, 0.0, 0.01);
  EXPECT_NEAR(square / kCount, 1.0, 0.02);
  EXPECT_NEAR(uniform / kCount, 0.5, 0.005);
  EXPECT_NEAR(static_cast<double>(heads) / kCount, 0.25, 0.005);
}

}  // namespace
}  // namespace isotone
