// SmolLM2's loss, gradients and three AdamW steps in f32 against PyTorch's in f64, and the same from a run cut in other
// ways.
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "dist/silent_rank.h"
#include "models/load.h"
#include "tests/bits/real_model.h"
#include "train/step.h"

namespace isotone::bits {
namespace {

using nlohmann::json;

constexpr double kTolerance = 1e-5;

class Oracle : public RealModelTest {
 protected:
  void SetUp() override {
    RealModelTest::SetUp();
    if (HasFatalFailure()) {
      return;
    }
    config_ = files_->config();
    const models::LoadedWeights w = models::load_weights(*files_, models::WeightDtype::f32, false);
    for (const nn::ParameterSpec& s : models::architecture_of(config_).parameters(config_)) {
      const Tensor& t = w.parameters.at(s.name);
      const std::vector<float> zeros(static_cast<std::size_t>(t.type().elements()), 0.0F);
      state_.parameters.set(s.name, Tensor::from_bytes(t.host(), t.type()));
      state_.m.set(s.name, Tensor::from(zeros, s.shape));
      state_.v.set(s.name, Tensor::from(zeros, s.shape));
    }
    batch_.ids = text_;
    batch_.grains = 1;
    batch_.tokens = static_cast<std::int64_t>(batch_.ids.size());
    batch_.targets.assign(batch_.ids.begin() + 1, batch_.ids.end());
    batch_.targets.push_back(-1);
    for (std::int32_t i = 0; i < batch_.tokens; ++i) {
      batch_.positions.push_back(i);
      batch_.starts.push_back(0);
    }
  }

  train::Recipe recipe() const {
    const json& a = golden_["adamw"];
    train::Recipe r;
    r.grains = 1;
    r.grain_tokens = batch_.tokens;
    r.schedule = "constant";
    r.lr = a["lr"];
    r.beta1 = a["betas"][0];
    r.beta2 = a["betas"][1];
    r.eps = a["eps"];
    r.weight_decay = a["weight_decay"];
    r.clip = a["clip"];
    return r;
  }

  static void expect_near(double ours, double golden, double tolerance, const std::string& what) {
    EXPECT_NEAR(ours, golden, tolerance * std::abs(golden)) << what;
  }

  static std::size_t offset(const json& index, const Shape& shape) {
    std::int64_t at = 0;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      at = at * shape[i] + index[i].get<std::int64_t>();
    }
    return static_cast<std::size_t>(at);
  }

  ModelConfig config_;
  train::TrainState state_;
  data::Batch batch_;
};

TEST_F(Oracle, LossGradientsAndAdamW) {
  dist::SilentRank alone;
  train::Stepper stepper(config_, recipe(), 1, alone);
  expect_near(stepper.evaluate(state_, batch_), golden_["score"]["mean_nll"], kTolerance, "mean NLL");
  const json& a = golden_["adamw"];
  for (std::size_t step = 0; step < a["grad_norms"].size(); ++step) {
    const train::StepResult r = stepper.step(state_, batch_);
    expect_near(r.loss, a["losses"][step], kTolerance, "loss of step " + std::to_string(step));
    expect_near(r.grad_norm, a["grad_norms"][step], kTolerance, "gradient norm of step " + std::to_string(step));
    if (step > 0) {
      continue;
    }
    // After one step m = (1 - beta1) * clip * gradient: PyTorch's own gradients can be read off it.
    const double scale = (1.0 - recipe().beta1) * std::min(1.0, recipe().clip / (r.grad_norm + 1e-6));
    for (const auto& [name, norm] : golden_["gradients"]["norms"].items()) {
      double squares = 0.0;
      for (const float x : state_.m.at(name).to_floats()) {
        squares += static_cast<double>(x) * x;
      }
      expect_near(std::sqrt(squares) / scale, norm, kTolerance, "gradient norm of " + name);
    }
    for (const json& e : golden_["gradients"]["entries"]) {
      const std::string name = e["name"];
      const Tensor& m = state_.m.at(name);
      const double rms =
          golden_["gradients"]["norms"][name].get<double>() / std::sqrt(static_cast<double>(m.type().elements()));
      const double ours = m.to_floats()[offset(e["index"], m.shape())] / scale, expected = e["value"];
      EXPECT_NEAR(ours, expected, 1e-4 * std::abs(expected) + 1e-4 * rms) << name << " at " << e["index"];
    }
  }
  expect_near(stepper.evaluate(state_, batch_), a["losses"].back(), kTolerance, "loss after the steps");
  for (const json& e : a["entries"]) {
    const Tensor& p = state_.parameters.at(e["name"]);
    // Each step moves a weight by about the learning rate, whatever its gradient's size: where that is nearly zero,
    // rounding decides.
    EXPECT_NEAR(p.to_floats()[offset(e["index"], p.shape())], e["value"].get<double>(), 0.1 * recipe().lr)
        << e["name"] << " at " << e["index"];
  }
}

}  // namespace
}  // namespace isotone::bits
