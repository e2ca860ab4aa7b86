#include "base/timeline.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace isotone {
namespace {

TEST(Timeline, KeepsTheNewest) {
  Timeline t(3);
  for (std::int64_t i = 0; i < 8; ++i) {
    t.add({"x", Work::data, i, i + 1});
    const std::vector<Stretch> all = t.stretches();
    ASSERT_EQ(all.size(), static_cast<std::size_t>(std::min<std::int64_t>(i + 1, 3)));
    for (std::size_t k = 0; k < all.size(); ++k) {
      EXPECT_EQ(all[k].begin, i + 1 - static_cast<std::int64_t>(all.size() - k));
    }
  }
  EXPECT_EQ(t.forgotten(), 5U);
  EXPECT_THROW(Timeline(0), Error);
}

TEST(Timeline, BlocksNest) {
  Timeline t(10);
  {
    const Timed outer(&t, "outer", Work::compute);
    const Timed inner(&t, "inner", Work::communication);
  }
  const Timed nobody(nullptr, "nobody looks", Work::compute);
  const std::vector<Stretch> all = t.stretches();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].name, std::string("inner"));
  EXPECT_EQ(all[1].name, std::string("outer"));
  EXPECT_LE(all[1].begin, all[0].begin);
  EXPECT_LE(all[0].begin, all[0].end);
  EXPECT_LE(all[0].end, all[1].end);
}

}  // namespace
}  // namespace isotone
