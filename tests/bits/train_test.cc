// A training step flips one thing at a time and keeps its bits: micro-batches, threads, recompute, instruction sets,
// and the interpreter in place of the kernels. And it notices what is not finite.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>

#include "backends/cpu/device.h"
#include "backends/cpu/isa.h"
#include "base/error.h"
#include "base/parallel.h"
#include "device/interpreter.h"
#include "tests/bits/tiny_training.h"

namespace isotone::bits {
namespace {

class TrainBits : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override { set_default_device(cpu::make_cpu_device()); }
  static Case base() { return {.dtype = GetParam()}; }
};

TEST_P(TrainBits, MicroBatchesOfARound) {
  for (const std::int64_t grains : {8, 3, 5, 6}) {
    Case c = base();
    c.grains = grains;
    c.micro = grains;
    const Trained expected = trained(c);
    EXPECT_LT(expected.losses[1], expected.losses[0] + 1.0);
    for (const std::int64_t micro : {1, 2, 3, 4}) {
      c.micro = micro;
      expect_same(expected, trained(c),
                  std::to_string(grains) + " grains, at most " + std::to_string(micro) + " at once");
    }
  }
}

TEST_P(TrainBits, RoundsAreALeftFold) {
  Case c = base();
  c.rounds = 3;
  c.grains = 2;
  c.micro = 2;
  const Trained expected = trained(c);
  c.micro = 1;
  expect_same(expected, trained(c), "three rounds of two grains, one at once");
  // One round of six is another tree: were this equal, the test above could not see a wrong order.
  c.rounds = 1;
  c.grains = 6;
  c.micro = 6;
  EXPECT_NE(expected.weights, trained(c).weights);
}

TEST_P(TrainBits, GrainsLongerThanALeaf) {
  Case c = base();
  c.grains = 3;
  c.tokens = 320;
  c.micro = 3;
  c.steps = 1;
  const Trained expected = trained(c);
  c.micro = 1;
  expect_same(expected, trained(c), "grains of 320 tokens");
}

TEST_P(TrainBits, Threads) {
  const int before = thread_count();
  Case c = base();
  set_thread_count(1);
  const Trained expected = trained(c);
  for (const int n : {2, 3}) {
    set_thread_count(n);
    expect_same(expected, trained(c), std::to_string(n) + " threads");
  }
  set_thread_count(before);
}

TEST_P(TrainBits, Recompute) {
  Case c = base();
  const Trained expected = trained(c);
  for (const char* how : {"light", "mlp", "layer"}) {
    c.recompute = how;
    expect_same(expected, trained(c), std::string("recompute = ") + how);
  }
}

TEST_P(TrainBits, InstructionSets) {
  const cpu::Isa before = cpu::current_isa();
  Case c = base();
  c.grains = 3;
  c.micro = 3;
  const Trained expected = trained(c);
  for (const cpu::Isa isa : cpu::supported_isas()) {
    cpu::set_isa(isa);
    expect_same(expected, trained(c), std::string(cpu::isa_name(isa)));
  }
  cpu::set_isa(before);
}

TEST_P(TrainBits, LikeTheInterpreter) {
  Case c = base();
  c.grains = 2;
  c.micro = 2;
  c.tokens = 64;
  c.steps = 1;
  const Trained ours = trained(c);
  set_default_device(device::make_interpreter());
  expect_same(trained(c), ours, "cpu and interpreter");
}

TEST_P(TrainBits, RecomputeTakesLessMemory) {
  Case c = base();
  const auto arena = [&](const char* how) {
    c.recompute = how;
    dist::SilentRank alone;
    return train::Stepper(tiny_config(), recipe_of(c), c.micro, alone).memory(c.micro).arena;
  };
  EXPECT_LT(arena("light"), arena("none"));
  EXPECT_LT(arena("mlp"), arena("light"));
  EXPECT_LT(arena("layer"), arena("mlp"));
}

TEST_P(TrainBits, EvaluationIsTheLossWithoutAStep) {
  Case c = base();
  c.steps = 1;
  dist::SilentRank alone;
  train::Stepper stepper(tiny_config(), recipe_of(c), c.micro, alone);
  train::TrainState state = fresh_state();
  const double loss = stepper.evaluate(state, batch_of(c, 0));
  EXPECT_EQ(loss, stepper.step(state, batch_of(c, 0)).loss);
  EXPECT_EQ(state.step, 1);
}

/// The message of a step over parameters of which some are `poison`ed.
std::string fault(DType dtype, const std::map<std::string, std::function<void(std::vector<float>&)>>& poison) {
  Case c{.dtype = dtype, .grains = 2, .micro = 1};
  dist::SilentRank alone;
  train::Stepper stepper(tiny_config(), recipe_of(c), c.micro, alone);
  train::TrainState state = fresh_state();
  state.step = 4;
  for (const auto& [name, change] : poison) {
    std::vector<float> values = state.parameters.at(name).to_floats();
    change(values);
    state.parameters.set(name, Tensor::from(values, state.parameters.at(name).shape()));
  }
  const std::size_t count = state.parameters.all().size();
  try {
    stepper.step(state, batch_of(c, 0));
  } catch (const Error& e) {
    EXPECT_EQ(state.step, 4);
    EXPECT_EQ(state.parameters.all().size(), count) << "the state is kept";
    return e.what();
  }
  return "no error";
}

TEST_P(TrainBits, NamesTheFirstTensorThatIsNotFinite) {
  const auto all = [](float x) { return [x](std::vector<float>& v) { std::fill(v.begin(), v.end(), x); }; };
  const std::string nan =
      fault(GetParam(),
            {{"model.layers.1.mlp.up_proj.weight", [](auto& v) { v[17] = std::numeric_limits<float>::quiet_NaN(); }}});
  EXPECT_NE(nan.find("step 4: parameter 'model.layers.1.mlp.up_proj.weight'"), std::string::npos) << nan;
  const std::string hidden = fault(GetParam(), {{"model.norm.weight", all(3e38F)}});
  EXPECT_NE(hidden.find("step 4: the last hidden state"), std::string::npos) << hidden;
  const std::string logits =
      fault(GetParam(), {{"model.norm.weight", all(1e36F)}, {"model.embed_tokens.weight", [](auto& v) {
                                                               for (float& x : v) {
                                                                 x *= 1e4F;
                                                               }
                                                             }}});
  EXPECT_NE(logits.find("step 4: the logits"), std::string::npos) << logits;
}

INSTANTIATE_TEST_SUITE_P(Dtypes, TrainBits, testing::Values(DType::f32, DType::bf16),
                         [](const auto& c) { return std::string(dtype_name(c.param)); });

}  // namespace
}  // namespace isotone::bits
