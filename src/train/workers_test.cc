#include "train/workers.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>

#include "base/file.h"
#include "base/reduction_tree.h"
#include "dist/in_process.h"

namespace isotone::train {
namespace {

class WorkersTest : public testing::Test {
 protected:
  void SetUp() override { make_folders(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string folder_ = testing::TempDir() + "workers-" + std::to_string(getpid());
};

TEST_F(WorkersTest, SessionsSayWhoDidWhichSteps) {
  const auto note = [&](int size, std::int64_t from) {
    dist::run_in_process(size, [&](dist::Communicator& r) { note_session(folder_, from, r); });
  };
  note(4, 0);
  note(2, 10);
  note(3, 20);
  const auto ranks_of = [&](std::int64_t step) {
    const std::vector<Session> all = read_sessions(folder_);
    const Session* s = session_of(all, step);
    return s == nullptr ? 0 : s->ranks();
  };
  EXPECT_EQ(ranks_of(0), 0);
  EXPECT_EQ(ranks_of(1), 4);
  EXPECT_EQ(ranks_of(10), 4);
  EXPECT_EQ(ranks_of(11), 2);
  EXPECT_EQ(ranks_of(1000), 3);
  note(1, 10);  // goes on from an older checkpoint: what came after it is done again
  EXPECT_EQ(ranks_of(10), 4);
  EXPECT_EQ(ranks_of(21), 1);
  EXPECT_EQ(read_sessions(folder_)[0].hosts, std::vector<std::string>(4, host_name()));
}

TEST_F(WorkersTest, LinesThatAreNoSessionsAreLeftOut) {
  EXPECT_TRUE(read_sessions(folder_).empty());
  const std::string good = R"({"from_step": 3, "hosts": ["a", "b"]})";
  write_file_atomic(join_path(folder_, kWorkersFile),
                    "[]\n\n{}\n\xff\xfe\n{\"from_step\": 1}\n{\"from_step\": \"1\", \"hosts\": [\"a\"]}\n"
                    "{\"from_step\": 2, \"hosts\": []}\n{\"from_step\": 2, \"hosts\": [7]}\n" +
                        good + "\n" + good.substr(0, 20));
  const std::vector<Session> all = read_sessions(folder_);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].from_step, 3);
  EXPECT_EQ(all[0].hosts, (std::vector<std::string>{"a", "b"}));
}

TEST_F(WorkersTest, EveryGrainHasTheRankThatComputesIt) {
  for (const std::int64_t grains : {1, 5, 8}) {
    for (const int ranks : {1, 2, 3, 8}) {
      const auto parts = ReductionTree(TreeKind::element, grains).split(ranks);
      const Session session{0, std::vector<std::string>(static_cast<std::size_t>(2 * ranks), "h"), 2};
      for (std::int64_t g = 0; g < 3 * grains; ++g) {
        const int rank = rank_of_grain(g, grains, session);  // the first of two that share a model
        EXPECT_EQ(rank % 2, 0);
        const Span part = parts[static_cast<std::size_t>(rank / 2)];
        EXPECT_TRUE(part.begin <= g % grains && g % grains < part.end) << g << " of " << grains << " on " << ranks;
      }
    }
  }
}

}  // namespace
}  // namespace isotone::train
