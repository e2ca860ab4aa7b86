// Qwen3, dense and with experts: the norms of the heads and the experts' lists keep their bits too. Serving gives
// training's logits however the tokens are cut, and a training step is the same for every micro-batch, number of
// threads, instruction set and recomputation.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "backends/cpu/device.h"
#include "backends/cpu/isa.h"
#include "base/error.h"
#include "base/parallel.h"
#include "device/interpreter.h"
#include "serve/cached_model.h"
#include "tests/bits/tiny_training.h"

namespace isotone::bits {
namespace {

struct Variant {
  const char* name;
  DType dtype;
  ModelConfig (*config)();
};
void PrintTo(const Variant& v, std::ostream* out) {
  *out << v.name;
}

std::vector<float> training_logits(const Variant& v, const std::vector<std::int32_t>& ids, std::int64_t grains) {
  const ModelConfig c = v.config();
  const models::LoadedWeights w = tiny_weights(c, v.dtype, false);
  const auto t = static_cast<std::int64_t>(ids.size()) / grains;
  std::vector<std::int32_t> positions;
  for (std::int64_t i = 0; i < grains * t; ++i) {
    positions.push_back(static_cast<std::int32_t>(i % t));
  }
  nn::PackedAttention attention;
  const models::Architecture& a = models::architecture_of(c);
  const Tensor hidden = a.hidden(c, w.parameters, Tensor::from(ids, {grains, t}), Tensor::from(positions, {grains, t}),
                                 attention, {v.dtype});
  return a.logits(c, w.parameters, hidden).to_floats();
}

std::vector<float> serving_logits(const Variant& v, const std::vector<std::int32_t>& ids, std::size_t chunk) {
  const ModelConfig c = v.config();
  serve::CachedModel model(c, tiny_weights(c, v.dtype, true), 0);
  const auto sequence = model.start();
  std::vector<float> out;
  for (std::size_t i = 0; i < ids.size(); i += chunk) {
    sequence->extend_all(
        std::span(ids).subspan(i, std::min(chunk, ids.size() - i)),
        [&](std::int64_t, std::span<const float> logits) { out.insert(out.end(), logits.begin(), logits.end()); });
  }
  return out;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && !a.empty() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class Qwen3 : public testing::TestWithParam<Variant> {
 protected:
  void SetUp() override { set_default_device(cpu::make_cpu_device()); }
  static Case base() {
    Case c{.dtype = GetParam().dtype};
    c.grains = 5;
    c.micro = 5;
    c.config = GetParam().config();
    return c;
  }
};

TEST_P(Qwen3, ServingLikeTrainingLikeTheInterpreter) {
  const std::vector<std::int32_t> ids = tiny_ids(150, 320);
  const std::vector<float> expected = training_logits(GetParam(), ids, 1);
  for (const std::size_t chunk : {std::size_t{1}, std::size_t{7}, std::size_t{64}, ids.size()}) {
    EXPECT_TRUE(same_bits(expected, serving_logits(GetParam(), ids, chunk))) << "chunks of " << chunk;
  }
  set_default_device(device::make_interpreter());
  EXPECT_TRUE(same_bits(expected, training_logits(GetParam(), ids, 1))) << "cpu and interpreter";
}

TEST_P(Qwen3, BatchOfThree) {
  const std::vector<std::int32_t> ids = tiny_ids(120, 320);
  const std::vector<float> all = training_logits(GetParam(), ids, 3);
  for (std::ptrdiff_t g = 0; g < 3; ++g) {
    const std::vector<float> one = training_logits(GetParam(), {ids.begin() + 40 * g, ids.begin() + 40 * (g + 1)}, 1);
    const auto n = static_cast<std::ptrdiff_t>(one.size());
    EXPECT_TRUE(same_bits(one, {all.begin() + n * g, all.begin() + n * (g + 1)})) << "row " << g;
  }
}

TEST_P(Qwen3, MicroBatches) {
  Case c = base();
  const Trained expected = trained(c);
  for (const std::int64_t micro : {1, 2, 3}) {
    c.micro = micro;
    expect_same(expected, trained(c), "at most " + std::to_string(micro) + " grains at once");
  }
}

TEST_P(Qwen3, BalanceLossOverMicroBatches) {
  Case c = base();
  c.rounds = 2;
  c.grains = 3;
  const Trained without = trained(c);
  c.balance_loss = 0.5;
  c.micro = 6;
  const Trained expected = trained(c);
  EXPECT_EQ(expected.weights != without.weights, c.config.experts.count > 0);  // a dense model has none
  for (const std::int64_t micro : {1, 2}) {
    c.micro = micro;
    expect_same(expected, trained(c), "at most " + std::to_string(micro) + " grains at once");
  }
}

TEST_P(Qwen3, Recompute) {
  Case c = base();
  const Trained expected = trained(c);
  for (const char* how : {"light", "mlp", "layer"}) {
    c.recompute = how;
    expect_same(expected, trained(c), std::string("recompute = ") + how);
  }
}

TEST_P(Qwen3, ThreadsAndInstructionSets) {
  Case c = base();
  c.steps = 1;
  const Trained expected = trained(c);
  const int threads = thread_count();
  for (const int n : {1, 2, 3}) {
    set_thread_count(n);
    expect_same(expected, trained(c), std::to_string(n) + " threads");
  }
  set_thread_count(threads);
  const cpu::Isa saved = cpu::current_isa();
  for (const cpu::Isa isa : cpu::supported_isas()) {
    cpu::set_isa(isa);
    expect_same(expected, trained(c), std::string(cpu::isa_name(isa)));
  }
  cpu::set_isa(saved);
}

INSTANTIATE_TEST_SUITE_P(Models, Qwen3,
                         testing::Values(Variant{"dense_f32", DType::f32, tiny_qwen3},
                                         Variant{"dense_bf16", DType::bf16, tiny_qwen3},
                                         Variant{"experts_f32", DType::f32, tiny_qwen3_moe},
                                         Variant{"experts_bf16", DType::bf16, tiny_qwen3_moe}),
                         [](const auto& p) { return std::string(p.param.name); });

TEST(Qwen3Config, RefusesWhatItDoesNotCompute) {
  const auto message = [](const ModelConfig& c) -> std::string {
    try {
      models::architecture_of(c).parameters(c);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(message(tiny_qwen3()), "no error");
  ModelConfig c = tiny_qwen3();
  c.attention_bias = true;
  EXPECT_NE(message(c).find("qwen3: biases"), std::string::npos) << message(c);
  c = tiny_qwen3();
  c.rope_scaling = "{\"rope_type\":\"yarn\"}";
  EXPECT_NE(message(c).find("qwen3: scaled rotary"), std::string::npos) << message(c);
  c = tiny_qwen3();
  c.hidden_act = "gelu";
  EXPECT_NE(message(c).find("qwen3: the activation 'gelu'"), std::string::npos) << message(c);
  c = tiny_qwen3();
  c.sliding_window = 64;
  EXPECT_NE(message(c).find("qwen3: a sliding window"), std::string::npos) << message(c);
}

}  // namespace
}  // namespace isotone::bits
