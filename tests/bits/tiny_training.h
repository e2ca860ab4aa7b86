// A tiny model's training: batches, states and what came of it, for the tests of this folder.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/hash.h"
#include "dist/silent_rank.h"
#include "tests/bits/tiny_model.h"
#include "train/step.h"

namespace isotone::bits {

struct Case {
  DType dtype = DType::f32;
  std::int64_t rounds = 1, grains = 8, tokens = 128, steps = 2;
  std::int64_t micro = 8;
  std::string recompute = "none";
  std::string data_mode = "replicated";
  int context = 1, expert = 1, tensor = 1;
  double balance_loss = -1.0;  // as the configuration says
  ModelConfig config = tiny_config();
};

/// Two documents a grain, the second from token 64 on; some targets masked.
inline data::Batch batch_of(const Case& c, std::int64_t step) {
  data::Batch b;
  b.grains = c.rounds * c.grains;
  b.tokens = c.tokens;
  b.ids = tiny_ids(b.grains * c.tokens, 320, static_cast<std::uint64_t>(50 + step));
  b.targets = tiny_ids(b.grains * c.tokens, 320, static_cast<std::uint64_t>(90 + step));
  for (std::int64_t i = 0; i < b.grains * c.tokens; ++i) {
    const auto t = static_cast<std::int32_t>(i % c.tokens);
    b.starts.push_back(t < 64 ? 0 : 64);
    b.positions.push_back(t - b.starts.back());
    if (i % 7 == 3) {
      b.targets[static_cast<std::size_t>(i)] = -1;
    }
  }
  return b;
}

inline train::TrainState fresh_state(const ModelConfig& config = tiny_config()) {
  const models::LoadedWeights w = tiny_weights(config, DType::f32, false);
  train::TrainState state;
  for (const nn::ParameterSpec& s : models::architecture_of(config).parameters(config)) {
    const Tensor& t = w.parameters.at(s.name);
    const std::vector<float> zeros(static_cast<std::size_t>(t.type().elements()), 0.0F);
    state.parameters.set(s.name, Tensor::from_bytes(t.host(), t.type()));
    state.m.set(s.name, Tensor::from(zeros, s.shape));
    state.v.set(s.name, Tensor::from(zeros, s.shape));
  }
  return state;
}

inline train::Recipe recipe_of(const Case& c) {
  train::Recipe r;
  r.rounds = c.rounds;
  r.grains = c.grains;
  r.grain_tokens = c.tokens;
  r.dtype = c.dtype;
  r.recompute = c.recompute;
  r.balance_loss = c.balance_loss;
  r.data_mode = c.data_mode;
  r.context = c.context;
  r.expert = c.expert;
  r.tensor = c.tensor;
  r.lr = 1e-2;
  r.steps = 10;
  return r;
}

struct Trained {
  std::vector<double> losses;
  std::vector<float> norms;
  std::string weights;  // SHA-256 of parameters and moments
  friend bool operator==(const Trained&, const Trained&) = default;
};

inline void expect_same(const Trained& a, const Trained& b, const std::string& what) {
  EXPECT_EQ(a.losses, b.losses) << what;
  EXPECT_EQ(a.norms, b.norms) << what;
  EXPECT_EQ(a.weights, b.weights) << what;
}

/// A rank's part of a state that is whole.
inline train::TrainState part_of(const train::TrainState& whole, const train::Shards& shards) {
  train::TrainState out = whole;
  for (std::size_t i = 0; i < shards.specs().size(); ++i) {
    const std::string& name = shards.specs()[i].name;
    out.parameters.set(name, shards.parameter_from(i, whole.parameters.at(name).to_bytes()));
    out.m.set(name, shards.moment_from(i, whole.m.at(name).to_bytes()));
    out.v.set(name, shards.moment_from(i, whole.v.at(name).to_bytes()));
  }
  return out;
}

/// SHA-256 of all parameters and moments, of which each rank has a part.
inline std::string hash_of(const train::TrainState& state, const train::Shards& shards, const std::string& data_mode) {
  train::Shards gatherer(shards.specs(), shards.specs().size(), train::parse_data_mode(data_mode), shards.grid());
  Sha256 hash;
  const auto add = [&](const nn::Parameters& group, bool cut) {
    const nn::Parameters whole = gatherer.join_parts(cut ? gatherer.gather(group) : group);
    for (const auto& [name, t] : whole.all()) {
      hash.update(t.to_bytes());
    }
  };
  add(state.parameters, shards.cut_parameters());
  add(state.m, shards.cut_optimiser());
  add(state.v, shards.cut_optimiser());
  return hash.hex();
}

/// Steps of a case on this rank.
inline Trained trained(const Case& c, dist::Communicator& ranks) {
  train::Stepper stepper(c.config, recipe_of(c), c.micro, ranks);
  train::TrainState state = part_of(fresh_state(c.config), stepper.shards());
  Trained out;
  for (std::int64_t i = 0; i < c.steps; ++i) {
    const train::StepResult r = stepper.step(state, batch_of(c, i));
    out.losses.push_back(r.loss);
    out.norms.push_back(r.grad_norm);
  }
  out.weights = hash_of(state, stepper.shards(), c.data_mode);
  return out;
}

inline Trained trained(const Case& c) {
  dist::SilentRank alone;
  return trained(c, alone);
}

}  // namespace isotone::bits
