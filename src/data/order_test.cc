// Orders without tables: permutations are bijections, mixtures keep their proportions exactly, and places depend on
// nothing that comes before.
#include "data/order.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "base/error.h"
#include "base/error_for_tests.h"

namespace isotone::data {
namespace {

TEST(Permute, IsABijection) {
  for (const std::int64_t n : {1, 2, 3, 4, 5, 7, 16, 17, 64, 65, 1000, 4097}) {
    for (const std::uint64_t key : {0ULL, 1ULL, 0xdeadbeefdeadbeefULL}) {
      std::vector<bool> seen(static_cast<std::size_t>(n));
      for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t p = permute(i, n, key);
        ASSERT_TRUE(p >= 0 && p < n);
        ASSERT_FALSE(seen[static_cast<std::size_t>(p)]) << n << ", " << i;
        seen[static_cast<std::size_t>(p)] = true;
      }
    }
  }
}

TEST(Permute, KeysDifferAndItIsNotTheIdentity) {
  std::int64_t same = 0, fixed = 0;
  for (std::int64_t i = 0; i < 1000; ++i) {
    same += permute(i, 1000, 1) == permute(i, 1000, 2) ? 1 : 0;
    fixed += permute(i, 1000, 1) == i ? 1 : 0;
  }
  EXPECT_LT(same, 20);  // about 1 of two random permutations
  EXPECT_LT(fixed, 20);
}

TEST(Permute, HugeRangesAndPlacesOutside) {
  const std::int64_t n = std::int64_t{1} << 62;
  std::set<std::int64_t> seen;
  for (std::int64_t i = 0; i < 100; ++i) {
    seen.insert(permute(n - 1 - i, n, 5));
  }
  EXPECT_EQ(seen.size(), 100U);
  EXPECT_GE(*seen.begin(), 0);
  EXPECT_THROW(permute(-1, 5, 0), Error);
  EXPECT_THROW(permute(5, 5, 0), Error);
  EXPECT_THROW(permute(0, 0, 0), Error);
  EXPECT_THROW(permute(0, n + 1, 0), Error);
}

TEST(Shuffled, EachEpochShowsEachGrainOnceInAnotherOrder) {
  std::vector<std::vector<std::int64_t>> epochs(3);
  for (std::int64_t i = 0; i < 3 * 50; ++i) {
    epochs[static_cast<std::size_t>(i / 50)].push_back(shuffled(i, 50, 7, "books"));
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
  for (auto& epoch : epochs) {
    EXPECT_EQ(std::set<std::int64_t>(epoch.begin(), epoch.end()).size(), 50U);
  }
}

TEST(Shuffled, TheOrderOfASourceWithoutNameIsTheOneBeforeSourcesHadNames) {
  // Places 0 to 7 of 10 grains with seed 3, and of the second epoch, as the first version of the program gave them.
  for (std::int64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(shuffled(i, 10, 3, ""),
              permute(i % 10, 10, 3 * 0x9e3779b97f4a7c15ULL + static_cast<std::uint64_t>(i / 10)));
  }
}

void expect_error(const std::function<void()>& f, const std::string& text) {
  const std::string said = error_of(f);
  EXPECT_NE(said.find(text), std::string::npos) << "'" << said << "' does not say " << text;
}

/// How often each source stands at places [first, first + count).
std::vector<std::int64_t> counts(const Mixture& m, std::size_t sources, std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> out(sources);
  for (std::int64_t i = first; i < first + count; ++i) {
    ++out[m.at(i).source];
  }
  return out;
}

TEST(Mixture, ProportionsAreExactInEveryCycle) {
  const Mixture m({{0, {3, 1, 0, 6}}}, 11);
  for (std::int64_t cycle = 0; cycle < 50; ++cycle) {
    EXPECT_EQ(counts(m, 4, cycle * 10, 10), (std::vector<std::int64_t>{3, 1, 0, 6}));
  }
  const Mixture divided({{0, {300, 100}}}, 11);
  EXPECT_EQ(counts(divided, 2, 40, 4), (std::vector<std::int64_t>{3, 1}));
}

TEST(Mixture, NoGrainComesTwiceInASourcesStream) {
  const Mixture m({{0, {2, 5}}, {33, {4, 1}}, {40, {0, 1}}, {60, {1, 1}}}, 4);
  std::vector<std::set<std::int64_t>> seen(2);
  for (std::int64_t i = 0; i < 200; ++i) {
    const Mixture::Place p = m.at(i);
    EXPECT_TRUE(seen[p.source].insert(p.index).second) << i;
  }
  // Without stages that cut a cycle, no index is left out either.
  const Mixture even({{0, {2, 5}}, {35, {4, 1}}}, 4);
  std::set<std::int64_t> first;
  for (std::int64_t i = 0; i < 85; ++i) {
    if (const Mixture::Place p = even.at(i); p.source == 0) {
      first.insert(p.index);
    }
  }
  EXPECT_EQ(first.size(), 50U);
  EXPECT_EQ(*first.rbegin(), 49);
}

TEST(Mixture, AStageHoldsFromItsPlaceOn) {
  const Mixture m({{0, {1, 0}}, {10, {0, 1}}, {15, {1, 1}}}, 0);
  EXPECT_EQ(counts(m, 2, 0, 10), (std::vector<std::int64_t>{10, 0}));
  EXPECT_EQ(counts(m, 2, 10, 5), (std::vector<std::int64_t>{0, 5}));
  EXPECT_EQ(counts(m, 2, 15, 20), (std::vector<std::int64_t>{10, 10}));
}

TEST(Mixture, AFarPlaceIsFoundWithoutTheOnesBefore) {
  const Mixture m({{0, {3, 7}}}, 2);
  const std::int64_t far = std::int64_t{1} << 50;
  const Mixture::Place p = m.at(far);
  EXPECT_EQ(p, Mixture({{0, {3, 7}}}, 2).at(far));
  EXPECT_GE(p.index, far / 10 * 3);
  EXPECT_NE(m.at(0).index, p.index);
}

TEST(Mixture, AbsurdWeightsAreRefused) {
  expect_error([] { const Mixture m({{0, {0, 0}}}, 1); }, "weight 0");
  expect_error([] { const Mixture m({{0, {1, -1}}}, 1); }, "-1");
  expect_error([] { const Mixture m({{0, {999'999, 2}}}, 1); }, "1000000");
  expect_error([] { const Mixture m({{0, {INT64_MAX, INT64_MAX - 1}}}, 1); }, "1000000");
  expect_error([] { const Mixture m({{5, {1}}}, 1); }, "first place");
  expect_error([] { const Mixture m({{0, {1}}, {0, {1}}}, 1); }, "rise");
  expect_error([] { const Mixture m({{0, {1}}, {4, {1, 1}}}, 1); }, "every source");
}

}  // namespace
}  // namespace isotone::data
