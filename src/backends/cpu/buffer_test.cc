#include "backends/cpu/buffer.h"

#include <gtest/gtest.h>

#include "base/philox.h"

namespace isotone::cpu {
namespace {

TEST(BlockPool, GivesABlockAgain) {
  BlockPool pool;
  std::byte* a = pool.take(1000);
  pool.give_back(a, 1000);
  EXPECT_EQ(pool.take(1000), a);
  EXPECT_EQ(pool.held().second, 0U);
  pool.give_back(a, 1000);
}

TEST(BlockPool, KeepsNoMoreThanWasOnceInUse) {
  BlockPool pool;
  const Philox random(3, "blocks");
  std::vector<std::pair<std::byte*, std::size_t>> live;
  std::size_t most = 0;
  for (std::uint64_t i = 0; i < 20000; ++i) {
    // Phases of small and of large blocks, so that what is kept is of little use to what comes.
    const std::size_t size = 1 + random.bits(2 * i) % (i / 2000 % 2 == 0 ? 3000U : 200000U);
    if (live.size() < 40 && random.bits(2 * i + 1) % 2 == 0) {
      live.emplace_back(pool.take(size), size);
    } else if (!live.empty()) {
      const std::size_t at = random.bits(2 * i) % live.size();
      pool.give_back(live[at].first, live[at].second);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
    }
    const auto [used, kept] = pool.held();
    most = std::max(most, used);
    ASSERT_LE(used + kept, most + most / 8) << i;
  }
  for (const auto& [block, size] : live) {
    pool.give_back(block, size);
  }
  EXPECT_EQ(pool.held().first, 0U);
}

}  // namespace
}  // namespace isotone::cpu
