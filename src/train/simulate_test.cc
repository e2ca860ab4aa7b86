#include "train/simulate.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "dist/silent_rank.h"
#include "models/model.h"

namespace isotone::train {
namespace {

/// Round numbers: the costs below can be done by hand.
Chip plain_chip() {
  Chip c;
  c.name = "plain";
  c.bf16 = c.matmul = c.attention = 1e12;
  c.memory = 1e11;
  c.memory_bandwidth = 1e11;
  c.link = 1e10;
  c.chips_a_node = 4;
  return c;
}

ModelShape plain_model() {
  return {8, 64, 128, 64, 32, 8, 1000};
}

Workload plain_work() {
  Workload w;
  w.sequences = 16;
  w.tokens = 128;
  w.mode = DataMode::zero2;
  return w;
}

const FittedConstants kFit{5, 3, 1};
constexpr double kNetwork = 1e9;

MeshShape mesh(int data, int tensor = 1, int pipeline = 1, int context = 1) {
  MeshShape m;
  m.data = data;
  m.tensor = tensor;
  m.pipeline = pipeline;
  m.context = context;
  return m;
}

std::string fault_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(CostModel, OneRankByHand) {
  const Cost c = cost_of_step(plain_model(), plain_chip(), kNetwork, mesh(1), plain_work(), kFit);
  const double tokens = 16 * 128, products = 64 * (2 * 64 + 2 * 32 + 3 * 128), pairs = 129.0 / 2;
  const double flops = tokens * (6 * (8 * products + 64 * 1000) + 12 * 8 * 64 * pairs);
  EXPECT_NEAR(c.matmul, flops / 1e12, 1e-9 * c.matmul);
  EXPECT_NEAR(c.peak_share, c.matmul / c.seconds, 1e-9);
  const double elements = 6 * 64 + 2 * 64 + 2 * 32 + 3 * 128;
  EXPECT_NEAR(c.activations, 5 * tokens * (8 * elements * 2 + 1000 * 4) / 1e11, 1e-12);
  const double parameters = 8 * (products + 2 * 64) + 2 * 1000 * 64 + 64;
  EXPECT_NEAR(c.parameters, 3 * 4 * parameters / 1e11, 1e-12);
  EXPECT_NEAR(c.update, 28 * parameters / 1e11, 1e-12);
  EXPECT_EQ(c.sent(), 0);
  EXPECT_EQ(c.bubble, 0);
  EXPECT_NEAR(c.seconds, c.matmul + c.activations + c.parameters + c.update, 1e-12);
  EXPECT_NEAR(c.optimiser_memory, 8 * parameters, 1);
}

/// What a step counts is what --plan and the progress line count.
TEST(CostModel, CountsAsTheRestDoes) {
  for (const bool tied : {false, true}) {
    ModelConfig config;
    config.architecture = "LlamaForCausalLM";
    config.model_type = "llama";
    config.vocab_size = 1000;
    config.hidden_size = 64;
    config.intermediate_size = 128;
    config.n_layers = 8;
    config.n_heads = 4;
    config.n_kv_heads = 2;
    config.head_dim = 16;
    config.tie_embeddings = tied;
    const std::vector<nn::ParameterSpec> specs = models::architecture_of(config).parameters(config);
    double elements = 0;
    for (const nn::ParameterSpec& s : specs) {
      elements += static_cast<double>(Type{DType::f32, s.shape}.elements());
    }
    const ModelShape shape = shape_of(config);
    EXPECT_EQ(shape.elements(), elements);
    for (const int n : {2, 4}) {
      const Cost c = cost_of_step(shape, plain_chip(), kNetwork, mesh(n), plain_work(), kFit);
      dist::SilentRank rank(0, n);
      const Grid grid({}, rank);
      const Shards shards(specs, tied ? 0 : specs.size(), DataMode::zero2, grid);
      const auto planned = static_cast<double>(shards.bytes_sent(1, 16));
      // A tied embedding's two uses travel apart, which the model leaves out.
      EXPECT_NEAR(c.data_bytes, planned, (tied ? 0.3 : 0.01) * planned) << n;
      EXPECT_NEAR(c.optimiser_memory, 8 * static_cast<double>(shards.elements()), 1000) << n;
    }
  }
}

TEST(CostModel, AxesCutWhatTheyShould) {
  const Chip chip = plain_chip();
  const auto cost = [&](const MeshShape& m, Workload w = plain_work()) {
    return cost_of_step(plain_model(), chip, kNetwork, m, w, kFit);
  };
  const Cost one = cost(mesh(1));
  EXPECT_NEAR(cost(mesh(4)).matmul, one.matmul / 4, 1e-12);
  EXPECT_NEAR(cost(mesh(1, 4)).matmul, one.matmul / 4, 1e-12);
  EXPECT_NEAR(cost(mesh(1, 1, 1, 4)).matmul, one.matmul / 4, 1e-12);
  EXPECT_NEAR(cost(mesh(1, 4)).optimiser_memory, one.optimiser_memory / 4, 1);
  EXPECT_GT(cost(mesh(1, 4)).tensor_bytes, 0);
  // Four of eight are in a node: a wider group goes through the network, with all of a node's.
  EXPECT_NEAR(cost(mesh(4)).data_messages, cost(mesh(4)).data_bytes / 1e10, 1e-12);
  EXPECT_NEAR(cost(mesh(8)).data_messages, cost(mesh(8)).data_bytes / 4e9, 1e-12);
  EXPECT_NEAR(cost(mesh(2, 4)).data_messages, cost(mesh(2, 4)).data_bytes / 1e9, 1e-12);
  // Pipeline: stages of two layers, four micro-batches; interleaved twice the bubble is half as long.
  MeshShape pipe = mesh(1, 1, 4);
  const Cost plain = cost(pipe);
  EXPECT_NEAR(plain.bubble / (plain.matmul + plain.activations + plain.parameters), 3.0 / 4, 1e-9);
  pipe.microbatches = 16;
  EXPECT_NEAR(cost(pipe).bubble / (cost(pipe).matmul + cost(pipe).activations + cost(pipe).parameters), 3.0 / 16, 1e-9);
  pipe.interleave = 2;
  EXPECT_NEAR(cost(pipe).bubble / (cost(pipe).matmul + cost(pipe).activations + cost(pipe).parameters), 3.0 / 32, 1e-9);
  // Modes: slices of moments, then of parameters too.
  Workload w = plain_work();
  w.mode = DataMode::replicated;
  EXPECT_NEAR(cost(mesh(4), w).optimiser_memory, one.optimiser_memory, 1);
  EXPECT_NEAR(cost(mesh(4)).optimiser_memory, one.optimiser_memory / 4, 1);
  w.mode = DataMode::zero3;
  w.gathers = 2;
  w.gathered_bytes = 2;
  EXPECT_LT(cost(mesh(4), w).parameter_memory, cost(mesh(4)).parameter_memory);
  // Recomputing takes time and saves memory; hiding messages saves time.
  w = plain_work();
  double kept = 1e30, time = 0;
  for (const char* recompute : {"none", "light", "mlp", "layer"}) {
    w.recompute = recompute;
    EXPECT_LT(cost(mesh(1), w).activation_memory, kept);
    EXPECT_GE(cost(mesh(1), w).matmul, time);
    kept = cost(mesh(1), w).activation_memory;
    time = cost(mesh(1), w).matmul;
  }
  // Fewer sequences at once: less memory, and the parameters are passed over for each part.
  w = plain_work();
  w.at_once = 4;
  const double casts = 2 * one.parameter_memory / 4;
  EXPECT_NEAR(cost(mesh(1), w).activation_memory - casts, (one.activation_memory - casts) / 4, 1);
  EXPECT_NEAR(cost(mesh(1), w).parameters, one.parameters * 4, 1e-12);
  w = plain_work();
  w.overlap = true;
  EXPECT_LT(cost(mesh(4), w).data_messages, cost(mesh(4)).data_messages);
}

TEST(CostModel, Experts) {
  ModelShape m = plain_model();
  m.experts = 8;
  m.experts_used = 2;
  MeshShape at = mesh(4);
  const Cost whole = cost_of_step(m, plain_chip(), kNetwork, at, plain_work(), kFit);
  at.expert = 4;
  const Cost cut = cost_of_step(m, plain_chip(), kNetwork, at, plain_work(), kFit);
  EXPECT_EQ(whole.expert_bytes, 0);
  EXPECT_GT(cut.expert_bytes, 0);
  // Of each layer's eight experts two are left; what four ranks keep of all of them is as much as before.
  EXPECT_NEAR(whole.parameters - cut.parameters, 3 * 4 * (8 * 6 * 3.0 * 64 * 128) / 1e11, 1e-12);
  EXPECT_NEAR(cut.optimiser_memory, whole.optimiser_memory, 1);
  EXPECT_LT(cut.data_bytes, whole.data_bytes);
  EXPECT_GT(whole.matmul, cost_of_step(plain_model(), plain_chip(), kNetwork, mesh(4), plain_work(), kFit).matmul);
}

TEST(CostModel, CutsThatDoNotFit) {
  const auto says = [](const MeshShape& m, double sequences = 16) {
    Workload w = plain_work();
    w.sequences = sequences;
    return fault_of([&] { static_cast<void>(cost_of_step(plain_model(), plain_chip(), kNetwork, m, w, kFit)); });
  };
  EXPECT_NE(says(mesh(1, 3)).find("heads"), std::string::npos);
  EXPECT_NE(says(mesh(1, 1, 16)).find("16 stages"), std::string::npos);
  EXPECT_NE(says(mesh(1, 1, 1, 3)).find("tokens"), std::string::npos);
  EXPECT_NE(says(mesh(32)).find("32 data-parallel ranks"), std::string::npos);
  MeshShape m = mesh(4);
  m.expert = 2;
  EXPECT_NE(says(m).find("no experts"), std::string::npos);
  m = mesh(4, 1, 2);
  m.microbatches = 8;
  EXPECT_NE(says(m).find("8 micro-batches"), std::string::npos);
}

TEST(Machines, AreRead) {
  const Machines m =
      parse_machines(" 1024 x h100 , 400 Gb/s, tensor 8, pipeline 4, context 2,interleave 2, microbatches 16, fp8");
  EXPECT_EQ(m.ranks, 1024);
  EXPECT_EQ(m.chip, "H100");
  EXPECT_EQ(m.network, 50e9);
  EXPECT_EQ(m.mesh.data, 16);
  EXPECT_EQ(m.mesh.ranks(), 1024);
  EXPECT_EQ(m.mesh.microbatches, 16);
  EXPECT_TRUE(m.fp8);
  EXPECT_TRUE(m.overlap);
  EXPECT_EQ(parse_machines("8 x A100").mesh.data, 8);
  EXPECT_EQ(parse_machines("64 x TPU-v5p").mesh.data, 64) << "linked all over the pod";
  EXPECT_EQ(parse_machines("4 x here").chip, "here");
  EXPECT_FALSE(parse_machines("16 x H200, 50 GB/s, no overlap").overlap);
}

TEST(Machines, WhatIsWrongIsSaid) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "does not begin"},
      {"H100", "does not begin"},
      {"8 x ", "does not begin"},
      {"8 x V100", "A100, H100"},
      {"0 x H100", "from 1"},
      {"-8 x H100", "from 1"},
      {"8.5 x H100", "whole number"},
      {"nan x H100", "a number"},
      {"1e300 x H100", "a number"},
      {"99999999999999999999 x H100", "a number"},
      {"16 x H100", "network between nodes"},
      {"16 x H100, 400", "not understood"},
      {"16 x H100, fast Gb/s", "a number"},
      {"16 x H100, 0 Gb/s", "a number"},
      {"8 x H100,", "not understood"},
      {"8 x H100, tensor", "tensor"},
      {"8 x H100, tensor 3", "8 ranks"},
      {"8 x H100, tensor 4, pipeline 4", "8 ranks"},
      {"8 x H100, tensr 4", "tensor N"},
      {"8 x H100, pipeline 1048576, tensor 1048576, context 1048576", "8 ranks"},
  };
  for (const auto& [text, what] : cases) {
    const std::string said = fault_of([&, text = text] { static_cast<void>(parse_machines(text)); });
    EXPECT_NE(said.find(what), std::string::npos) << text << ": " << said;
  }
}

TEST(Published, EveryRowIsPredicted) {
  const std::vector<PublishedRow> rows = published_rows();
  ASSERT_EQ(rows.size(), 5U);
  FittedConstants fit = fitted_constants();
  fit.link_share = 1;
  std::vector<double> predicted;
  for (const PublishedRow& r : rows) {
    const Cost c = cost_of_step(r.model, chip_of(r.chip), r.network, r.mesh, r.work, fit);
    predicted.push_back(c.tokens_a_second / r.mesh.ranks());
    EXPECT_LT(std::abs(predicted.back() / r.tokens_a_second - 1), 0.5) << r.name << ": a sign of a wrong formula";
    EXPECT_LT(c.memory(), 96e9) << r.name << " ran in 96 GB";
  }
  EXPECT_LT(predicted[1], predicted[0] * 1.02);
  EXPECT_NEAR(predicted[4] / predicted[3], 1.28, 0.1) << "what interleaving gives";
  EXPECT_NEAR(rows[0].model.elements(), 8.03e9, 0.01e9);
  EXPECT_NEAR(rows[2].model.elements(), 70.6e9, 0.1e9);
  EXPECT_NEAR(rows[3].model.elements(), 405.9e9, 0.5e9);
}

}  // namespace
}  // namespace isotone::train
