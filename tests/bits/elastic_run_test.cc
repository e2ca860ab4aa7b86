// Whole runs by a recipe (data, steps, evaluation, metrics, checkpoints) that move between numbers of ranks.
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>

#include "backends/cpu/device.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "dist/in_process.h"
#include "dist/silent_rank.h"
#include "tensor/tensor.h"
#include "train/run.h"

namespace isotone::bits {
namespace {

using nlohmann::json;
using train::Recipe;
using train::RunOptions;
using train::RunResult;

class ElasticRun : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::current_path(ISOTONE_SOURCE_DIR);
    set_default_device(cpu::make_cpu_device());
    folder_ = testing::TempDir() + "elastic-run-" + std::to_string(getpid());
    std::filesystem::remove_all(folder_);
    recipe_ = train::read_recipe("recipes/tiny.toml");
    const std::string text = join_path(folder_, "text.txt");
    make_folders(folder_);
    write_file_atomic(text, read_text_file(recipe_.files[0]).substr(0, 30000));
    recipe_.files = recipe_.validation = {text};
    recipe_.eval_every = 4;
    recipe_.eval_grains = 5;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Recipe in(const std::string& name) const {
    Recipe r = recipe_;
    r.out = join_path(folder_, name);
    return r;
  }

  static RunResult run_alone(const Recipe& recipe, const RunOptions& options = {}) {
    dist::SilentRank alone;
    return train::run(recipe, options, {[](const auto&) {}, [](const auto&) {}}, {}, alone);
  }

  /// Rank 0's result; `stop_at`: rank 1 alone is asked to stop after this step.
  static RunResult run_on(int size, const Recipe& recipe, const RunOptions& options = {}, std::int64_t stop_at = 0) {
    std::mutex mutex;
    RunResult first;
    dist::run_in_process(size, [&](dist::Communicator& r) {
      std::stop_source stop;
      train::RunObserver observer;
      observer.on_step = [&](const train::StepReport& s) {
        if (r.rank() == 1 && s.step == stop_at) {
          stop.request_stop();
        }
      };
      observer.on_note = [](const std::string&) {};
      const RunResult mine = train::run(recipe, options, observer, stop.get_token(), r);
      const std::lock_guard lock(mutex);
      if (r.rank() == 0) {
        first = mine;
      }
    });
    return first;
  }

  /// All of metrics.jsonl but speeds.
  static std::vector<json> metrics(const Recipe& recipe) {
    std::vector<json> out;
    const std::string text = read_text_file(join_path(recipe.out, "metrics.jsonl"));
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find('\n', at);
      json line = json::parse(text.substr(at, end - at));
      line.erase("tok_s");
      line.erase("cost");
      out.push_back(std::move(line));
      at = end + 1;
    }
    return out;
  }

  static void expect_same(const Recipe& a, const Recipe& b, const std::string& checkpoint) {
    EXPECT_EQ(metrics(a), metrics(b));
    for (const std::string name : {"model.safetensors", "optimiser.safetensors", "manifest.json", "config.json"}) {
      EXPECT_EQ(sha256_of_file(join_path(join_path(a.out, checkpoint), name)),
                sha256_of_file(join_path(join_path(b.out, checkpoint), name)))
          << name;
    }
  }

  std::string folder_;
  Recipe recipe_;
};

TEST_F(ElasticRun, MovesBetweenWorlds) {
  const Recipe whole = in("whole");
  EXPECT_TRUE(run_alone(whole).finished);
  Recipe moving = in("moving");
  struct Leg {
    int size;
    const char* mode;
    std::int64_t steps;
  };
  for (const Leg& leg : {Leg{4, "zero2", 2}, {3, "zero3", 1}, {1, "replicated", 2}, {6, "replicated", 1}}) {
    moving.data_mode = leg.mode;
    RunOptions options;
    options.stop_after = leg.steps;
    EXPECT_FALSE(run_on(leg.size, moving, options).finished);
  }
  moving.data_mode = "zero1";
  EXPECT_TRUE(run_on(2, moving).finished);
  expect_same(whole, moving, "step-000008");
}

TEST_F(ElasticRun, RanksReadShardsThatRankZeroBuilds) {
  const Recipe whole = in("whole");
  EXPECT_TRUE(run_alone(whole).finished);
  Recipe built = in("built");
  built.built = join_path(folder_, "shards");
  RunOptions options;
  options.stop_after = 3;
  EXPECT_FALSE(run_on(3, built, options).finished);
  EXPECT_TRUE(path_exists(join_path(built.built, "data-00000.grains")));
  EXPECT_TRUE(run_on(2, built).finished);
  expect_same(whole, built, "step-000008");
}

TEST_F(ElasticRun, ADamagedShardIsNamedOnEveryRank) {
  Recipe r = in("damaged");
  r.built = join_path(folder_, "shards");
  RunOptions options;
  options.stop_after = 1;
  static_cast<void>(run_on(2, r, options));
  const std::string shard = join_path(r.built, "data-00000.grains");
  std::string bytes = read_text_file(shard);
  for (std::size_t at = 200; at < bytes.size(); at += 4 * 64 + 8) {
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
  }
  write_file_atomic(shard, bytes);
  std::mutex mutex;
  std::vector<std::string> said;
  dist::run_in_process(3, [&](dist::Communicator& ranks) {
    try {
      static_cast<void>(train::run(r, {}, {[](const auto&) {}, [](const auto&) {}}, {}, ranks));
    } catch (const Error& e) {
      const std::lock_guard lock(mutex);
      said.emplace_back(e.what());
    }
  });
  ASSERT_EQ(said.size(), 3U);
  for (const std::string& text : said) {
    EXPECT_NE(text.find("data-00000.grains: grain"), std::string::npos) << text;
    EXPECT_NE(text.find("is damaged"), std::string::npos) << text;
  }
}

TEST_F(ElasticRun, OneRanksStopRequestStopsAllAtOneStep) {
  const Recipe whole = in("whole"), stopped = in("stopped");
  static_cast<void>(run_alone(whole));
  const RunResult r = run_on(3, stopped, {}, 5);
  EXPECT_EQ(r.step, 5);
  EXPECT_FALSE(r.finished);
  EXPECT_TRUE(path_exists(join_path(stopped.out, "step-000005")));
  EXPECT_TRUE(run_on(5, stopped).finished);
  expect_same(whole, stopped, "step-000008");
}

TEST_F(ElasticRun, DamagedCheckpointsAndLeftoversOfKilledSaves) {
  const Recipe whole = in("whole"), hurt = in("hurt");
  static_cast<void>(run_alone(whole));
  RunOptions options;
  options.stop_after = 4;
  static_cast<void>(run_on(2, hurt, options));
  std::filesystem::resize_file(join_path(hurt.out, "step-000004/optimiser.safetensors"), 1000);
  make_folders(join_path(hurt.out, "step-000007.aside-1-0"));
  EXPECT_TRUE(run_on(3, hurt).finished);
  expect_same(whole, hurt, "step-000008");
  for (const std::string& name : list_folder(hurt.out)) {
    EXPECT_FALSE(is_aside_name(name)) << name;
  }
}

TEST_F(ElasticRun, ErrorsAreEveryRanks) {
  const auto says = [](const Recipe& recipe, const RunOptions& options) {
    try {
      static_cast<void>(run_on(3, recipe, options));
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  Recipe r = in("errors");
  r.files = {join_path(folder_, "nowhere.txt")};
  EXPECT_NE(says(r, {}).find("nowhere.txt"), std::string::npos);
  r = in("errors");
  RunOptions options;
  options.stop_after = 1;
  static_cast<void>(run_on(2, r, options));
  options.resume = "never";
  EXPECT_NE(says(r, options).find("there is a checkpoint already"), std::string::npos);
  r.lr *= 2;
  EXPECT_NE(says(r, {}).find("another recipe"), std::string::npos);
}

TEST_F(ElasticRun, ThePlanSaysWhatEachRankTakes) {
  Recipe r = in("planned");
  r.grains = 6;
  const train::RunPlan one = train::plan_run(r, {}, 1);
  ASSERT_EQ(one.ranks.size(), 1U);
  EXPECT_EQ(one.most().sent_a_step, 0U);
  r.data_mode = "zero2";
  const train::RunPlan four = train::plan_run(r, {}, 4);
  std::int64_t grains = 0, ranks = 0;
  std::size_t optimiser = 0;
  for (const train::RankPlan& p : four.ranks) {
    const auto n = p.last - p.first + 1;
    ranks += n;
    grains += n * p.grains;
    optimiser += static_cast<std::size_t>(n) * p.optimiser;  // the largest of the group: a few elements too many
  }
  EXPECT_EQ(ranks, 4);
  EXPECT_EQ(grains, 6);
  EXPECT_NEAR(static_cast<double>(optimiser), static_cast<double>(one.most().optimiser), 4096.0);
  EXPECT_GT(four.most().sent_a_step, one.most().parameters);
  EXPECT_LT(four.most().optimiser, one.most().optimiser / 3);
  const train::RunPlan many = train::plan_run(r, {}, 8);
  EXPECT_TRUE(std::any_of(many.ranks.begin(), many.ranks.end(), [](const auto& p) { return p.grains == 0; }));
}

}  // namespace
}  // namespace isotone::bits
