// The tiles' own exp (through the joining of states) equals the contract's on every instruction set.
#include "backends/cpu/kernels/attention_tiles.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "backends/cpu/kernels/attention_test_support.h"
#include "base/fmath.h"

namespace isotone::cpu {
namespace {

TEST(AttentionTiles, ExpOfNonPositiveNumbers) {
  const FlushSubnormals flush;
  std::vector<float> xs = {-std::numeric_limits<float>::infinity(), -0.0F, -3e38F, -1e-38F, -87.5F, -100.0F};
  for (std::uint32_t b = std::bit_cast<std::uint32_t>(-1e-6F); b < std::bit_cast<std::uint32_t>(-120.0F); b += 1009) {
    xs.push_back(std::bit_cast<float>(b));
  }
  for (float x = -87.0F; x > -88.5F; x = std::nextafter(x, -200.0F)) {  // where results become subnormal
    xs.push_back(x);
  }
  for (const Isa isa : supported_isas()) {
    const attention_test::WithIsa with(isa);
    const attention::Tiles& tiles = attention::tiles_for(DType::f32, "test");
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < xs.size(); i += 64) {
      float m1[64], l1[64], m2[64] = {}, l2[64] = {}, o1[64 * 16] = {}, o2[64 * 16] = {};
      for (std::size_t r = 0; r < 64; ++r) {
        m1[r] = xs[std::min(i + r, xs.size() - 1)];
        l1[r] = 1.0F;
      }
      tiles.merge(64, 16, nullptr, m1, l1, o1, m2, l2, o2);
      for (std::size_t r = 0; r < 64; ++r) {
        const float want = fmath::exp(xs[std::min(i + r, xs.size() - 1)]);
        wrong += std::bit_cast<std::uint32_t>(want) != std::bit_cast<std::uint32_t>(l1[r]) ? 1 : 0;
      }
    }
    EXPECT_EQ(wrong, 0) << isa_name(isa);
  }
}

}  // namespace
}  // namespace isotone::cpu
