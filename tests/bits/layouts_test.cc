// Training on layouts of ranks, each dimension alone and together, dense models in f32 and bf16: losses, norms and
// weights of one process.
#include <unistd.h>

#include <filesystem>
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

/// Wide enough that sums over features can be cut in two at least, and heads in four.
ModelConfig wide_config(bool tied) {
  ModelConfig c = tiny_config();
  c.vocab_size = 640;
  c.hidden_size = 512;
  c.intermediate_size = 576;
  c.n_layers = 1;
  c.n_heads = 8;
  c.n_kv_heads = 4;
  c.head_dim = 64;
  c.tie_embeddings = tied;
  return c;
}

struct Layout {
  int data, context, tensor;
  const char* mode;
  int expert = 1;
  [[nodiscard]] int ranks() const { return data * context * expert * tensor; }
  [[nodiscard]] std::string describe() const {
    return fmt::format("data {} {} x context {} x expert {} x tensor {}", data, mode, context, expert, tensor);
  }
};

class Layouts : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override { set_default_device(cpu::make_cpu_device()); }
  static Case base() {
    return {.dtype = GetParam(),
            .rounds = 1,
            .grains = 3,
            .tokens = 256,
            .steps = 2,
            .micro = 2,
            .config = wide_config(true)};
  }
  static Case with(Case c, const Layout& layout) {
    c.data_mode = layout.mode;
    c.context = layout.context;
    c.expert = layout.expert;
    c.tensor = layout.tensor;
    return c;
  }
};

TEST_P(Layouts, LossesNormsAndWeights) {
  const Trained expected = trained(base());
  for (const Layout& layout : {Layout{1, 1, 2, "replicated"},
                               {1, 1, 4, "zero1"},
                               {1, 1, 3, "replicated"},
                               {1, 2, 1, "replicated"},
                               {1, 4, 1, "zero2"},
                               {1, 3, 1, "replicated"},
                               {1, 2, 2, "replicated"},
                               {2, 1, 2, "replicated"},
                               {2, 1, 2, "zero1"},
                               {3, 1, 2, "zero3"},
                               {2, 2, 1, "zero3"},
                               {2, 2, 2, "zero2"},
                               {3, 2, 2, "replicated"},
                               {4, 2, 2, "zero3"}}) {
    dist::run_in_process(layout.ranks(), [&](Communicator& r) {
      expect_same(expected, trained(with(base(), layout), r), fmt::format("{}, rank {}", layout.describe(), r.rank()));
    });
  }
}

TEST_P(Layouts, AnUntiedModelRecomputedInManyRounds) {
  Case c = base();
  c.config = wide_config(false);
  c.rounds = 2;
  c.grains = 2;
  c.recompute = "layer";
  const Trained expected = trained(c);
  for (const Layout& layout : {Layout{1, 1, 2, "replicated"}, {2, 2, 2, "zero3"}}) {
    dist::run_in_process(layout.ranks(), [&](Communicator& r) {
      expect_same(expected, trained(with(c, layout), r), fmt::format("{}, rank {}", layout.describe(), r.rank()));
    });
  }
}

TEST_P(Layouts, Experts) {
  Case c = base();
  c.config = tiny_qwen3_moe();
  c.balance_loss = 0.01;
  const Trained expected = trained(c);
  for (const Layout& layout : {Layout{1, 1, 1, "replicated", 2},
                               {1, 1, 1, "zero1", 4},
                               {1, 1, 1, "replicated", 3},
                               {2, 1, 1, "zero3", 2},
                               {1, 2, 1, "replicated", 2},
                               {1, 2, 1, "replicated"},
                               {1, 1, 2, "replicated"},
                               {1, 1, 2, "zero2", 2},
                               {3, 1, 1, "zero1", 2},
                               {2, 2, 2, "zero3", 2}}) {
    dist::run_in_process(layout.ranks(), [&](Communicator& r) {
      expect_same(expected, trained(with(c, layout), r), fmt::format("{}, rank {}", layout.describe(), r.rank()));
    });
  }
}

/// One run that moves between layouts through its checkpoints, against one that never stops; files alike whoever wrote
/// them.
TEST_P(Layouts, CheckpointsMoveBetweenLayouts) {
  Case c = base();
  c.steps = 1;
  const std::string folder = testing::TempDir() + "layouts-" + std::to_string(getpid());
  std::filesystem::remove_all(folder);
  make_folders(folder);
  const train::ModelText text{.config_json = model_config_json(c.config),
                              .tokenizer_json = "{}",
                              .tokenizer_config_json = "",
                              .generation_json = ""};
  dist::SilentRank alone;
  train::Stepper one(c.config, recipe_of(c), 3, alone);
  train::TrainState whole = fresh_state(c.config);
  const std::string fingerprint = recipe_of(c).fingerprint();
  std::string from;
  std::int64_t step = 0;
  for (const Layout& layout : {Layout{1, 1, 2, "replicated"},
                               {2, 2, 2, "zero3"},
                               {1, 2, 1, "replicated"},
                               {2, 1, 4, "zero1"},
                               {1, 1, 1, "replicated"}}) {
    const std::string to = join_path(folder, train::checkpoint_name(step + 1));
    std::mutex mutex;
    dist::run_in_process(layout.ranks(), [&](Communicator& r) {
      train::Stepper stepper(c.config, recipe_of(with(c, layout)), 2, r);
      const train::RunRecipe recipe{fingerprint, recipe_of(c).fields(), {}};
      train::TrainState state = from.empty() ? part_of(fresh_state(c.config), stepper.shards())
                                             : train::load_checkpoint(from, recipe, stepper.shards());
      stepper.step(state, batch_of(c, step));
      train::save_checkpoint(to, state, text, recipe, stepper.shards());
    });
    one.step(whole, batch_of(c, step));
    const std::string undisturbed = folder + "/one";
    train::save_checkpoint(undisturbed, whole, text, {fingerprint, recipe_of(c).fields(), {}}, one.shards());
    for (const char* name : {"model.safetensors", "optimiser.safetensors"}) {
      EXPECT_EQ(sha256_of_file(join_path(to, name)), sha256_of_file(join_path(undisturbed, name)))
          << layout.describe() << " " << name;
    }
    std::filesystem::remove_all(undisturbed);
    from = to;
    ++step;
  }
  std::filesystem::remove_all(folder);
}

TEST_P(Layouts, EvaluationAndFaults) {
  const Case c = base();
  dist::SilentRank alone;
  const double expected =
      train::Stepper(c.config, recipe_of(c), 3, alone).evaluate(fresh_state(c.config), batch_of(c, 0));
  const Layout layout{2, 2, 2, "zero3"};
  dist::run_in_process(layout.ranks(), [&](Communicator& r) {
    train::Stepper stepper(c.config, recipe_of(with(c, layout)), 1, r);
    EXPECT_EQ(stepper.evaluate(part_of(fresh_state(c.config), stepper.shards()), batch_of(c, 0)), expected);
    // A weight that only some ranks have is named by all.
    train::TrainState bad = fresh_state(c.config);
    const std::string name = "model.layers.0.mlp.down_proj.weight";
    std::vector<float> values = bad.parameters.at(name).to_floats();
    values.back() = std::numeric_limits<float>::quiet_NaN();
    bad.parameters.set(name, Tensor::from(values, bad.parameters.at(name).shape()));
    train::TrainState mine = part_of(bad, stepper.shards());
    try {
      stepper.step(mine, batch_of(c, 0));
      ADD_FAILURE() << "nobody noticed";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("parameter '" + name + "' holds"), std::string::npos) << e.what();
    }
  });
  dist::SilentRank third(0, 3);
  try {
    train::Stepper(c.config, recipe_of(with(c, layout)), 1, third);
    ADD_FAILURE() << "3 ranks are no multiple of 4";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("so 4 ranks would do"), std::string::npos) << e.what();
  }
}

INSTANTIATE_TEST_SUITE_P(, Layouts, testing::Values(DType::f32, DType::bf16),
                         [](const auto& p) { return std::string(dtype_name(p.param)); });

}  // namespace
}  // namespace isotone::bits
