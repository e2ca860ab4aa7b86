// Training on any number of data-parallel ranks, in every mode, gives the bits of one process; so does a run that moves
// between numbers of ranks through its checkpoints.
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <limits>
#include <mutex>
#include <set>

#include "backends/cpu/device.h"
#include "base/error.h"
#include "base/file.h"
#include "dist/in_process.h"
#include "tests/bits/tiny_training.h"

namespace isotone::bits {
namespace {

using dist::Communicator;

struct Variant {
  const char* name;
  DType dtype;
  ModelConfig (*config)();
};
void PrintTo(const Variant& v, std::ostream* out) {
  *out << v.name;
}

class Elastic : public testing::TestWithParam<Variant> {
 protected:
  void SetUp() override {
    set_default_device(cpu::make_cpu_device());
    folder_ = testing::TempDir() + "elastic-" + std::to_string(getpid());
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static Case base() {
    return {.dtype = GetParam().dtype,
            .rounds = 2,
            .grains = 6,
            .tokens = 64,
            .steps = 3,
            .micro = 2,
            .balance_loss = 0.1,  // where there are experts
            .config = GetParam().config()};
  }

  static void expect_on_ranks(const Case& c, int size, const Trained& expected) {
    dist::run_in_process(size, [&](Communicator& r) {
      expect_same(
          expected, trained(c, r),
          fmt::format("{}, {} rounds of {} grains, rank {} of {}", c.data_mode, c.rounds, c.grains, r.rank(), size));
    });
  }

  std::string folder_;
};

TEST_P(Elastic, EveryWorldAndMode) {
  Case c = base();
  const Trained expected = trained(c);
  for (const std::string& mode : train::data_mode_names()) {
    c.data_mode = mode;
    for (const int size : {1, 2, 3, 4, 5, 6, 8, 12, 16}) {
      expect_on_ranks(c, size, expected);
    }
  }
}

TEST_P(Elastic, OtherNumbersOfGrainsAndRounds) {
  for (const auto& [rounds, grains] : {std::pair{1, 5}, {3, 5}, {1, 8}, {3, 8}, {2, 1}}) {
    Case c = base();
    c.rounds = rounds;
    c.grains = grains;
    c.steps = 2;
    const Trained expected = trained(c);
    for (const char* mode : {"replicated", "zero3"}) {
      c.data_mode = mode;
      for (const int size : {2, 3, 4, 5, 8}) {
        expect_on_ranks(c, size, expected);
      }
    }
  }
}

TEST_P(Elastic, MicroBatchesAndLongGrainsAndAnUntiedModel) {
  Case c = base();
  c.config.tie_embeddings = false;
  c.tokens = 320;
  c.rounds = 1;
  c.grains = 4;
  c.steps = 2;
  c.micro = 4;
  const Trained expected = trained(c);
  for (const int micro : {1, 4}) {
    c.micro = micro;
    c.data_mode = "zero2";
    for (const int size : {2, 3}) {
      expect_on_ranks(c, size, expected);
    }
  }
}

TEST_P(Elastic, MoreRanksThanElementsOfATensor) {
  Case c = base();
  c.config.hidden_size = 16;
  c.config.n_heads = 1;
  c.config.n_kv_heads = 1;
  c.rounds = 1;
  c.grains = 2;
  c.steps = 2;
  const Trained expected = trained(c);
  for (const char* mode : {"replicated", "zero2", "zero3"}) {
    c.data_mode = mode;
    expect_on_ranks(c, 20, expected);
  }
}

TEST_P(Elastic, Evaluation) {
  const Case c = base();
  dist::SilentRank alone;
  const double expected =
      train::Stepper(c.config, recipe_of(c), 3, alone).evaluate(fresh_state(c.config), batch_of(c, 0));
  for (const char* mode : {"replicated", "zero3"}) {
    train::Recipe recipe = recipe_of(c);
    recipe.data_mode = mode;
    for (const int size : {2, 5, 16}) {
      dist::run_in_process(size, [&](Communicator& r) {
        train::Stepper stepper(c.config, recipe, 1, r);
        EXPECT_EQ(stepper.evaluate(part_of(fresh_state(c.config), stepper.shards()), batch_of(c, 0)), expected) << size;
      });
    }
  }
}

train::ModelText text_of(const ModelConfig& config) {
  return {.config_json = model_config_json(config),
          .tokenizer_json = "{}",
          .tokenizer_config_json = "",
          .generation_json = ""};
}

/// One process undisturbed, against 1 rank, then 4, 3, 16, 2, each of another mode; checkpoints between them. The files
/// of a checkpoint do not show who wrote them.
TEST_P(Elastic, AMovingRunIsAnUndisturbedOne) {
  Case c = base();
  c.steps = 2;
  struct Leg {
    int size;
    const char* mode;
  };
  std::vector<std::string> batches, undisturbed_batches;
  Trained moving, undisturbed;
  std::string from;
  std::int64_t step = 0;
  dist::SilentRank alone;
  train::Stepper one(c.config, recipe_of(c), 6, alone);
  train::TrainState whole = fresh_state(c.config);
  for (const Leg& leg : {Leg{1, "replicated"}, {4, "zero2"}, {3, "replicated"}, {16, "zero3"}, {2, "zero1"}}) {
    c.data_mode = leg.mode;
    const std::string to = join_path(folder_, train::checkpoint_name(step + c.steps));
    std::mutex mutex;
    std::set<std::string> seen;
    dist::run_in_process(leg.size, [&](Communicator& r) {
      train::Stepper stepper(c.config, recipe_of(c), 2, r);
      train::TrainState state = from.empty() ? part_of(fresh_state(c.config), stepper.shards())
                                             : train::load_checkpoint(from, {"recipe"}, stepper.shards());
      EXPECT_EQ(state.step, step);
      Trained now;
      std::vector<std::string> hashes;
      for (std::int64_t i = 0; i < c.steps; ++i) {
        const data::Batch batch = batch_of(c, state.step);
        const train::StepResult done = stepper.step(state, batch);
        hashes.push_back(done.batch_sha256);
        now.losses.push_back(done.loss);
        now.norms.push_back(done.grad_norm);
      }
      // Training goes on while the checkpoint is written; what is written is the state it was given.
      train::CheckpointWriter writer(to, state, text_of(c.config), {"recipe"}, stepper.shards());
      const std::int64_t tokens = state.tokens;
      static_cast<void>(stepper.step(state, batch_of(c, state.step)));
      writer.commit();
      const train::TrainState saved = train::load_checkpoint(to, {"recipe"}, stepper.shards());
      EXPECT_EQ(saved.step, state.step - 1);
      EXPECT_EQ(saved.tokens, tokens);
      now.weights = hash_of(saved, stepper.shards(), c.data_mode);
      const std::lock_guard lock(mutex);
      seen.insert(now.weights);
      if (r.rank() == 0) {
        moving.losses.insert(moving.losses.end(), now.losses.begin(), now.losses.end());
        moving.norms.insert(moving.norms.end(), now.norms.begin(), now.norms.end());
        moving.weights = now.weights;
        batches.insert(batches.end(), hashes.begin(), hashes.end());
      }
    });
    EXPECT_EQ(seen.size(), 1U) << "ranks of " << leg.size << " loaded different states";
    for (std::int64_t i = 0; i < c.steps; ++i) {
      const data::Batch batch = batch_of(c, whole.step);
      const train::StepResult done = one.step(whole, batch);
      undisturbed_batches.push_back(done.batch_sha256);
      undisturbed.losses.push_back(done.loss);
      undisturbed.norms.push_back(done.grad_norm);
    }
    undisturbed.weights = hash_of(whole, one.shards(), "replicated");
    expect_same(undisturbed, moving, fmt::format("{} ranks, {}", leg.size, leg.mode));
    const std::string ours = to + "-of-one";
    train::save_checkpoint(ours, whole, text_of(c.config), {"recipe"}, one.shards());
    for (const std::string& name : list_folder(ours)) {
      EXPECT_EQ(sha256_of_file(join_path(ours, name)), sha256_of_file(join_path(to, name))) << name;
    }
    EXPECT_EQ(list_folder(ours), list_folder(to));
    from = to;
    step += c.steps;
  }
  EXPECT_EQ(batches, undisturbed_batches);
  for (const std::string& name : list_folder(folder_)) {
    EXPECT_FALSE(is_aside_name(name)) << name;
  }
}

TEST_P(Elastic, ADamagedCheckpointIsNamedOnEveryRank) {
  const Case c = base();
  dist::SilentRank alone;
  train::Stepper one(c.config, recipe_of(c), 6, alone);
  const std::string path = join_path(folder_, "step-000000");
  train::save_checkpoint(path, fresh_state(c.config), text_of(c.config), {"recipe"}, one.shards());
  std::string bytes = read_text_file(join_path(path, "model.safetensors"));
  bytes[bytes.size() - 5] = static_cast<char>(bytes[bytes.size() - 5] ^ 1);
  write_file_atomic(join_path(path, "model.safetensors"), bytes);
  std::mutex mutex;
  std::vector<std::string> said;
  dist::run_in_process(5, [&](Communicator& r) {
    train::Stepper stepper(c.config, recipe_of(c), 6, r);
    try {
      static_cast<void>(train::load_checkpoint(path, {"recipe"}, stepper.shards()));
    } catch (const Error& e) {
      const std::lock_guard lock(mutex);
      said.emplace_back(e.what());
    }
    EXPECT_THROW(static_cast<void>(train::load_checkpoint(path, {"another recipe"}, stepper.shards())),
                 train::OtherRun);
  });
  ASSERT_EQ(said.size(), 5U);
  for (const std::string& s : said) {
    EXPECT_NE(s.find("model.norm.weight' is damaged"), std::string::npos) << s;
  }
}

TEST_P(Elastic, WhatIsNotFiniteIsNamedAlikeOnEveryRank) {
  const Case c = base();
  const auto poisoned = [&](const std::string& name) {
    train::TrainState state = fresh_state(c.config);
    std::vector<float> values = state.parameters.at(name).to_floats();
    values.back() = std::numeric_limits<float>::quiet_NaN();
    state.parameters.set(name, Tensor::from(values, state.parameters.at(name).shape()));
    return state;
  };
  for (const std::string mode : {"replicated", "zero3"}) {
    Case here = c;
    here.data_mode = mode;
    for (const int size : {1, 3, 8}) {
      std::mutex mutex;
      std::set<std::string> said;
      dist::run_in_process(size, [&](Communicator& r) {
        train::Stepper stepper(c.config, recipe_of(here), 2, r);
        train::TrainState state = part_of(poisoned("model.layers.1.mlp.up_proj.weight"), stepper.shards());
        const std::string before = state.parameters.at("model.layers.1.mlp.up_proj.weight").describe();
        try {
          static_cast<void>(stepper.step(state, batch_of(c, 0)));
          ADD_FAILURE() << "a NaN was trained on";
        } catch (const Error& e) {
          const std::lock_guard lock(mutex);
          said.insert(e.what());
        }
        EXPECT_EQ(state.step, 0);
        EXPECT_EQ(state.parameters.at("model.layers.1.mlp.up_proj.weight").describe(), before);
      });
      ASSERT_EQ(said.size(), 1U) << size << " ranks say different things";
      EXPECT_NE(said.begin()->find("step 0: parameter 'model.layers.1.mlp.up_proj.weight' holds a NaN"),
                std::string::npos)
          << *said.begin();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Elastic,
                         testing::Values(Variant{"f32", DType::f32, tiny_config},
                                         Variant{"bf16", DType::bf16, tiny_config},
                                         Variant{"experts_f32", DType::f32, tiny_qwen3_moe}),
                         [](const auto& p) { return std::string(p.param.name); });

}  // namespace
}  // namespace isotone::bits
