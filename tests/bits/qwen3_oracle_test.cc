// Tiny random Qwen3 models, dense and with experts, as transformers saved them: our f32 logits, greedy tokens, loss and
// gradients against its f64 ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "backends/cpu/device.h"
#include "base/file.h"
#include "formats/model_files.h"
#include "models/load.h"
#include "models/model.h"
#include "serve/cached_model.h"
#include "tensor/transforms.h"

namespace isotone::bits {
namespace {

using nlohmann::json;

class Qwen3Oracle : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    set_default_device(cpu::make_cpu_device());
    const std::string folder = std::string(ISOTONE_SOURCE_DIR) + "/tests/goldens/" + GetParam();
    golden_ = json::parse(read_text_file(folder + "/golden.json"));
    files_ = open_model(folder);
    ids_ = golden_["ids"].get<std::vector<std::int32_t>>();
  }

  static void expect_near(const std::vector<float>& ours, const std::vector<double>& golden, const std::string& what) {
    ASSERT_EQ(ours.size(), golden.size()) << what;
    double largest = 0.0;
    for (const double x : golden) {
      largest = std::max(largest, std::abs(x));
    }
    ASSERT_GT(largest, 0.0) << what;
    for (std::size_t i = 0; i < ours.size(); ++i) {
      ASSERT_NEAR(ours[i], golden[i], 1e-4 * largest) << what << " at " << i;
    }
  }

  json golden_;
  std::unique_ptr<ModelFiles> files_;
  std::vector<std::int32_t> ids_;
};

TEST_P(Qwen3Oracle, LogitsAndGreedyTokens) {
  ASSERT_GT(golden_["smallest_gap"].get<double>(), 1e-3);
  serve::CachedModel model(files_->config(), models::load_weights(*files_, models::WeightDtype::f32, true), 0);
  const auto sequence = model.start();
  std::vector<float> all;
  const auto keep = [&](std::int64_t, std::span<const float> logits) {
    all.insert(all.end(), logits.begin(), logits.end());
  };
  sequence->extend_all(ids_, keep);
  expect_near(all, golden_["logits"], "logits");
  const std::int64_t vocab = files_->config().vocab_size;
  std::vector<std::int32_t> greedy;
  while (greedy.size() < golden_["greedy"].size()) {
    const auto last = all.end() - static_cast<std::ptrdiff_t>(vocab);
    greedy.push_back(static_cast<std::int32_t>(std::max_element(last, all.end()) - last));
    sequence->extend_all(std::span(greedy).last(1), keep);
  }
  EXPECT_EQ(greedy, golden_["greedy"].get<std::vector<std::int32_t>>());
}

TEST_P(Qwen3Oracle, LossAndGradients) {
  const ModelConfig& c = files_->config();
  const models::Architecture& architecture = models::architecture_of(c);
  const std::vector<nn::ParameterSpec> specs = architecture.parameters(c);
  const models::LoadedWeights w = models::load_weights(*files_, models::WeightDtype::f32, false);
  const auto t = static_cast<std::int64_t>(ids_.size());
  std::vector<std::int32_t> targets(ids_.begin() + 1, ids_.end()), positions;
  targets.push_back(-1);
  for (std::int32_t i = 0; i < t; ++i) {
    positions.push_back(i);
  }
  Tensors values;
  for (const nn::ParameterSpec& s : specs) {
    values.push_back(w.parameters.at(s.name));
  }
  const Function objective = [&](const Tensors& in) -> Tensors {
    nn::Parameters p = w.parameters;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      p.set(specs[i].name, in[i]);
    }
    nn::PackedAttention attention;
    const Tensor hidden =
        architecture.hidden(c, p, Tensor::from(ids_, {1, t}), Tensor::from(positions, {1, t}), attention, {});
    const Tensor per_token = ops::cross_entropy(architecture.logits(c, p, hidden), Tensor::from(targets, {1, t}))[0];
    return {Tensor(ops::exact_sum({per_token}))};
  };
  EXPECT_NEAR(objective(values)[0].to_floats()[0], golden_["loss"].get<double>(), 1e-3);
  const Tensors gradients = value_and_grad(objective)(values).gradients;
  std::size_t compared = 0, used = 0;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const std::vector<float> ours = gradients[i].to_floats();
    for (const nn::StoredTensor& stored : nn::stored_tensors(specs[i])) {
      const auto first = ours.begin() + static_cast<std::ptrdiff_t>(stored.first);
      const std::vector<float> part(first,
                                    first + static_cast<std::ptrdiff_t>(Type{DType::f32, stored.shape}.elements()));
      const std::vector<double> golden = golden_["gradients"].at(stored.name);
      const bool unused =
          !specs[i].slices.empty() && std::count(golden.begin(), golden.end(), 0.0) == std::ssize(golden);
      if (unused) {  // no token chose this expert
        EXPECT_EQ(part, std::vector<float>(part.size(), 0.0F)) << stored.name;
      } else {
        expect_near(part, golden, stored.name);
        used += specs[i].slices.empty() ? 0 : 1;
      }
      ++compared;
    }
  }
  EXPECT_EQ(golden_["gradients"].size(), compared);
  EXPECT_TRUE(c.experts.count == 0 || used > 20) << used << " matrices of experts were used";
}

class Qwen3MoeOracle : public Qwen3Oracle {};

TEST_P(Qwen3MoeOracle, BalanceLoss) {
  const ModelConfig& c = files_->config();
  const models::LoadedWeights w = models::load_weights(*files_, models::WeightDtype::f32, false);
  const auto t = static_cast<std::int64_t>(ids_.size());
  std::vector<std::int32_t> positions(ids_.size());
  std::iota(positions.begin(), positions.end(), 0);
  std::vector<std::string> routers;
  Tensors values;
  for (const auto& [name, gradient] : golden_["balance_gradients"].items()) {
    routers.push_back(name);
    values.push_back(w.parameters.at(name));
  }
  ASSERT_EQ(routers.size(), 2U);
  const Function balance = [&](const Tensors& in) -> Tensors {
    nn::Parameters p = w.parameters;
    for (std::size_t i = 0; i < routers.size(); ++i) {
      p.set(routers[i], in[i]);
    }
    nn::PackedAttention attention;
    nn::RoutingLog routing;
    models::architecture_of(c).hidden(c, p, Tensor::from(ids_, {1, t}), Tensor::from(positions, {1, t}), attention,
                                      {.routing = &routing});
    return {Tensor(ops::reshape(nn::balance_loss(routing), {}))};
  };
  EXPECT_NEAR(balance(values)[0].item(), golden_["balance_loss"].get<double>(), 1e-5);
  const Tensors gradients = value_and_grad(balance)(values).gradients;
  for (std::size_t i = 0; i < routers.size(); ++i) {
    expect_near(gradients[i].to_floats(), golden_["balance_gradients"].at(routers[i]), routers[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Qwen3MoeOracle, testing::Values("qwen3_moe"));
INSTANTIATE_TEST_SUITE_P(Models, Qwen3Oracle, testing::Values("qwen3", "qwen3_moe"),
                         [](const auto& p) { return std::string(p.param); });

}  // namespace
}  // namespace isotone::bits
