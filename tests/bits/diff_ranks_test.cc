// A run on several ranks, one of which gives a wrong bit once: comparing what it left with a sound run names step,
// grain and rank, or the tensor, and doing the steps again says which run is not reproducible.
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "dist/in_process.h"
#include "dist/silent_rank.h"
#include "tensor/tensor.h"
#include "tests/bits/faulty_device.h"
#include "train/replay.h"
#include "train/run.h"

namespace isotone::bits {
namespace {

thread_local int this_rank = 0;

class DiffRanks : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::filesystem::current_path(ISOTONE_SOURCE_DIR);
    folder_ = testing::TempDir() + "diff-ranks-" + std::to_string(getpid());
    set_default_device(cpu::make_cpu_device());
    make_folders(folder_);
    const std::string text = join_path(folder_, "text.txt");
    recipe_ = train::read_recipe("recipes/tiny.toml");
    write_file_atomic(text, read_text_file(recipe_.files[0]).substr(0, 20000));
    recipe_.files = {text};
    recipe_.validation.clear();
    recipe_.eval_every = 0;
    recipe_.rounds = 1;
    recipe_.grains = 6;
    recipe_.grain_tokens = 64;
    recipe_.steps = 4;
    recipe_.warmup = 1;
    recipe_.checkpoint_every = 2;
    recipe_.keep = 9;
    run("sound", 1);
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder_); }
  void SetUp() override { set_default_device(cpu::make_cpu_device()); }
  void TearDown() override { set_default_device(cpu::make_cpu_device()); }

  [[nodiscard]] static std::string out(const std::string& name) { return join_path(folder_, name); }

  static void run(const std::string& name, int ranks) {
    train::Recipe r = recipe_;
    r.out = out(name);
    train::RunOptions options;
    options.micro_grains = 1;
    dist::run_in_process(ranks, [&](dist::Communicator& c) {
      this_rank = c.rank();
      const auto result = train::run(r, options, {[](const auto&) {}, [](const auto&) {}}, {}, c);
      require(result.finished, "the run did not finish");
    });
    this_rank = 0;
  }

  /// A run on three ranks where rank 2 flips a bit of an output of its `when`-th gradient.
  static void run_faulty(const std::string& name, int when, int output, std::size_t byte) {
    std::atomic<int> gradients{0};
    const auto fault = [&](const ir::Graph& g) {
      const bool reads_tokens = std::any_of(g.inputs.begin(), g.inputs.end(), [&](ir::ValueId v) {
        return g.types[static_cast<std::size_t>(v)].dtype == DType::i32;
      });
      return this_rank == 2 && reads_tokens && ++gradients == when ? output : -1;
    };
    set_default_device(std::make_shared<FaultyDevice>(fault, byte));
    run(name, 3);
    set_default_device(cpu::make_cpu_device());
  }

  static train::Replayed again(const train::RunsCompared& c) { return train::replay(c, {}); }

  static inline std::string folder_;
  static inline train::Recipe recipe_;
};

TEST_F(DiffRanks, RanksDoNotShow) {
  run("three", 3);
  const train::RunsCompared c = train::compare_runs(out("sound"), out("three"));
  EXPECT_TRUE(c.same());
  EXPECT_EQ(c.steps.size(), 4U);
  EXPECT_EQ(c.equal_at, 4);
  EXPECT_THROW(static_cast<void>(again(c)), Error) << "there is nothing to look for";
}

TEST_F(DiffRanks, AWrongLossNamesGrainAndRank) {
  // Rank 2 has grains 4 and 5 of a round; its sixth gradient is grain 5's in the third step (one round a step).
  run_faulty("loss", 6, 0, 6);
  const train::RunsCompared c = train::compare_runs(out("sound"), out("loss"));
  ASSERT_TRUE(c.step.has_value());
  EXPECT_EQ(c.step->step, 3);
  EXPECT_EQ(c.step->fields.front(), "grain_losses");
  EXPECT_EQ(c.step->first_grain, 5);
  EXPECT_EQ(c.step->grains, 1);
  const train::Session* s = train::session_of(c.b.sessions, 3);
  ASSERT_NE(s, nullptr);
  EXPECT_EQ(s->ranks(), 3);
  EXPECT_EQ(train::rank_of_grain(5, recipe_.grains, *s), 2);
  EXPECT_FALSE(c.tensor.has_value()) << "a loss that is only reported changes no parameter";
  const train::Replayed r = again(c);
  EXPECT_EQ(r.from_step, 2);
  EXPECT_EQ(r.step, 3);
  EXPECT_TRUE(r.like_a);
  EXPECT_FALSE(r.like_b);
  EXPECT_EQ(r.grain, 5);
  EXPECT_FALSE(r.op.has_value());
}

TEST_F(DiffRanks, AWrongGradientNamesTheTensor) {
  run_faulty("gradient", 5, 3, 2);  // in the third step
  const train::RunsCompared c = train::compare_runs(out("gradient"), out("sound"));
  ASSERT_TRUE(c.tensor.has_value());
  EXPECT_EQ(c.tensor->step, 4);
  EXPECT_EQ(c.equal_at, 2);
  EXPECT_GE(c.tensor->element, 0);
  EXPECT_GT(c.tensor->ulps, 0U);
  const train::Replayed r = again(c);
  EXPECT_EQ(r.from_step, 2);
  EXPECT_FALSE(r.like_a);
  EXPECT_TRUE(r.like_b);
}

}  // namespace
}  // namespace isotone::bits
