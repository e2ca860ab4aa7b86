// Names of the numerics profiles, and the block leaf against sums done by hand.
#include "base/numerics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/error.h"

namespace isotone {
namespace {

TEST(Numerics, NamesComeBack) {
  for (const NumericsProfile p : {NumericsProfile::pairdot_1, NumericsProfile::amx_1}) {
    EXPECT_EQ(parse_numerics_profile(numerics_profile_name(p)), p);
  }
  try {
    parse_numerics_profile("amx");
    FAIL() << "an unknown profile was taken";
  } catch (const Error& e) {
    EXPECT_NE(std::string_view(e.what()).find("pairdot-1 (the default) and amx-1"), std::string_view::npos) << e.what();
  }
}

/// Large terms cancel inside a chain and swallow small ones outside it, so the grouping is seen.
TEST(Numerics, BlockLeafGroupsByBlocksAndParity) {
  const float big = 0x1p25F;
  std::vector<float> x(65, 0.0F);
  x[0] = big;  // even chain of the first block: big, then 1 is lost, then 1
  x[2] = 1.0F;
  x[4] = -big;
  x[6] = 1.0F;
  x[1] = 3.0F;   // odd chain
  x[33] = 5.0F;  // second block
  x[64] = 7.0F;  // a block of one
  const auto step = [&](std::int64_t i, float acc) { return std::fma(x[static_cast<std::size_t>(i)], 1.0F, acc); };
  EXPECT_EQ(block_leaf(65, step), 1.0F + 3.0F + 5.0F + 7.0F);
  x[32] = big;  // the second block is (big) + (5): 5 survives only in part
  x[64] = -big;
  EXPECT_EQ(block_leaf(65, step), (4.0F + (big + 5.0F)) - big);
  EXPECT_EQ(block_leaf(0, step), 0.0F);
}

}  // namespace
}  // namespace isotone
