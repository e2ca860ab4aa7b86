// What can be seen of a run on several ranks: one timeline with aligned clocks, costs, a log a rank. Looking changes no
// bit.
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "backends/cpu/device.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "dist/in_process.h"
#include "dist/silent_rank.h"
#include "tensor/tensor.h"
#include "train/run.h"
#include "train/timeline_file.h"

namespace isotone::bits {
namespace {

using nlohmann::json;

class WatchRanks : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::current_path(ISOTONE_SOURCE_DIR);
    set_default_device(cpu::make_cpu_device());
    folder_ = testing::TempDir() + "watch-ranks-" + std::to_string(getpid());
    std::filesystem::remove_all(folder_);
    make_folders(folder_);
    recipe_ = train::read_recipe("recipes/tiny.toml");
    const std::string text = join_path(folder_, "text.txt");
    write_file_atomic(text, read_text_file(recipe_.files[0]).substr(0, 20000));
    recipe_.files = {text};
    recipe_.steps = 4;
    recipe_.checkpoint_every = 2;
    recipe_.data_mode = "zero2";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  train::Recipe in(const std::string& name) const {
    train::Recipe r = recipe_;
    r.out = join_path(folder_, name);
    return r;
  }

  static void run(int size, const train::Recipe& recipe, const train::RunOptions& options) {
    dist::run_in_process(size, [&](dist::Communicator& r) {
      const train::RunObserver quiet{[](const auto&) {}, [](const auto&) {}};
      static_cast<void>(train::run(recipe, options, quiet, {}, r));
    });
  }

  std::string folder_;
  train::Recipe recipe_;
};

struct Event {
  double begin, end;
  std::string name;
  int rank;
  double bytes;
};

/// Of each (rank, track), in order of the beginnings; longer ones first.
std::map<std::pair<int, int>, std::vector<Event>> tracks_of(const json& file) {
  std::map<std::pair<int, int>, std::vector<Event>> out;
  for (const json& e : file.at("traceEvents")) {
    if (e.at("ph") == "X") {
      const double ts = e.at("ts"), dur = e.at("dur");
      EXPECT_GE(dur, 0.0);
      const json none = json::object();
      const json& args = e.contains("args") ? e.at("args") : none;
      out[{e.at("pid"), e.at("tid")}].push_back(
          {ts, ts + dur, e.at("name"), args.value("rank", -1), args.value("bytes", 0.0)});
    }
  }
  for (auto& [track, events] : out) {
    std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
      return a.begin < b.begin || (a.begin == b.begin && a.end > b.end);
    });
  }
  return out;
}

TEST_F(WatchRanks, OneTimelineOfAllRanks) {
  train::RunOptions options;
  options.timeline = join_path(folder_, "timeline.json");
  run(3, in("watched"), options);
  const json file = json::parse(read_text_file(options.timeline));
  const auto tracks = tracks_of(file);
  ASSERT_EQ(tracks.size(), 6U) << "compute and communication of 3 ranks";
  for (const auto& [track, events] : tracks) {
    std::vector<double> open;  // ends of the stretches around this one
    for (const Event& e : events) {
      while (!open.empty() && open.back() <= e.begin) {
        open.pop_back();
      }
      EXPECT_TRUE(open.empty() || e.end <= open.back() + 1e-6) << e.name << " ends after the one around it";
      open.push_back(e.end);
    }
  }
  for (int rank = 0; rank < 3; ++rank) {
    std::map<std::string, int> counts;
    for (const Event& e : tracks.at({rank, 0})) {
      ++counts[e.name];
    }
    EXPECT_EQ(counts["step"], 4);
    EXPECT_EQ(counts["batch"], 4);
    EXPECT_EQ(counts["update"], 4);
    EXPECT_GE(counts["gradients"], 8) << "two rounds a step";
    EXPECT_EQ(counts["checkpoint"], 5);
  }
  // A message is not there before its sender began to send it: what aligned clocks are for. The k-th from one rank to
  // another is the k-th received; those of the start, before the clocks' zero, count too.
  for (int from = 0; from < 3; ++from) {
    for (int to = 0; to < 3; ++to) {
      std::vector<Event> sent, got;
      for (const Event& e : tracks.at({from, 1})) {
        if (e.name == "send" && e.rank == to) {
          sent.push_back(e);
        }
      }
      for (const Event& e : tracks.at({to, 1})) {
        if (e.name == "receive" && e.rank == from) {
          got.push_back(e);
        }
      }
      // The timeline's own messages at the end are received by rank 0 after its part was made.
      const std::size_t both = std::min(sent.size(), got.size());
      EXPECT_TRUE(from == to || both > 20) << from << " to " << to;
      for (std::size_t i = 0; i < both; ++i) {
        EXPECT_EQ(sent[i].bytes, got[i].bytes);
        EXPECT_GE(got[i].end + 50000.0, sent[i].begin) << "a message came long before it was sent";
      }
    }
  }
}

TEST_F(WatchRanks, ClocksThatDifferAreAligned) {
  dist::run_in_process(4, [](dist::Communicator& r) {
    const std::int64_t behind = r.rank() * std::int64_t{3'000'000'000};
    const std::int64_t offset = train::clock_offset(r, [behind] { return clock_ns() - behind; });
    EXPECT_LT(std::abs(offset - behind), 500'000'000) << "rank " << r.rank();
  });
}

/// What the offset is for: a rank's times are shown on rank 0's clock.
TEST_F(WatchRanks, TimesAreOnRank0sClock) {
  Timeline timeline(4);
  timeline.add({"x", Work::compute, 1'000'500, 2'000'750});
  timeline.add({"receive", Work::communication, 1'000'600, 1'000'601, 2, 77});
  const json events = json::parse("[" + train::timeline_events(timeline, 5, 1'000'000, 2'000'000) + "]");
  const json& x = events.at(3);
  EXPECT_EQ(x.at("pid"), 5);
  EXPECT_EQ(x.at("tid"), 0);
  EXPECT_DOUBLE_EQ(x.at("ts"), 0.5);
  EXPECT_DOUBLE_EQ(x.at("dur"), 1000.25);
  EXPECT_EQ(events.at(4).at("tid"), 1);
  EXPECT_EQ(events.at(4).at("args"), (json{{"rank", 2}, {"bytes", 77}}));
  EXPECT_EQ(events.at(4).at("dur"), 0.001);
}

TEST_F(WatchRanks, LookingChangesNoBit) {
  train::RunOptions options;
  run(2, in("plain"), options);
  options.timeline = join_path(folder_, "t.json");
  options.tensorboard = join_path(folder_, "events");
  options.prometheus = join_path(folder_, "run.prom");
  run(2, in("watched"), options);
  for (const std::string name : {"model.safetensors", "optimiser.safetensors", "manifest.json"}) {
    EXPECT_EQ(sha256_of_file(join_path(join_path(in("plain").out, "step-000004"), name)),
              sha256_of_file(join_path(join_path(in("watched").out, "step-000004"), name)))
        << name;
  }
  EXPECT_EQ(list_folder(options.tensorboard).size(), 1U) << "rank 0 alone writes events";
}

TEST_F(WatchRanks, CostsAndLogs) {
  const train::Recipe r = in("costs");
  run(2, r, {});
  const train::RunPlan plan = train::plan_run(r, {}, 2);
  const std::string text = read_text_file(join_path(r.out, "metrics.jsonl"));
  int lines = 0;
  for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1, ++lines) {
    const json cost = json::parse(text.substr(at, text.find('\n', at) - at)).at("cost");
    EXPECT_GT(cost.at("seconds"), 0.0);
    EXPECT_GT(cost.at("communication_share"), 0.0);
    EXPECT_LT(cost.at("communication_share"), 1.0);
    EXPECT_GT(cost.at("peak_share"), 0.0);
    EXPECT_GT(cost.at("resident_bytes"), 1'000'000U);
    EXPECT_EQ(cost.at("planned_bytes"), plan.most().total());
    // What the plan says of gradients and parameters, and some small messages: losses, sums, whether to stop.
    EXPECT_GE(cost.at("sent_bytes"), plan.most().sent_a_step);
    EXPECT_LE(cost.at("sent_bytes"), plan.most().sent_a_step + 20000);
  }
  EXPECT_EQ(lines, 4);
  for (const std::string rank : {"0000", "0001"}) {
    const std::string log = read_text_file(join_path(r.out, "ranks/rank-" + rank + ".log"));
    EXPECT_NE(log.find("step 4 of 4"), std::string::npos) << log;
    EXPECT_NE(log.find("saved "), std::string::npos) << log;
  }
}

TEST_F(WatchRanks, FilesThatCannotBeWrittenAreEveryRanksError) {
  const auto says = [&](const train::RunOptions& options) {
    try {
      run(2, in("errors" + options.timeline.substr(0, 1)), options);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  train::RunOptions options;
  options.prometheus = join_path(folder_, "text.txt/x.prom");
  EXPECT_NE(says(options).find("x.prom"), std::string::npos);
  options = {};
  options.tensorboard = join_path(folder_, "text.txt/events");
  EXPECT_NE(says(options).find("text.txt"), std::string::npos);
  options = {};
  options.timeline = join_path(folder_, "text.txt/t.json");
  EXPECT_NE(says(options).find("t.json"), std::string::npos);
}

}  // namespace
}  // namespace isotone::bits
