#include "train/benchmark.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/parallel.h"
#include "base/philox.h"
#include "base/tree.h"
#include "dist/collectives.h"
#include "dist/timed_communicator.h"
#include "train/step.h"

namespace isotone::train {

ModelConfig benchmark_config(const BenchmarkOptions& o) {
  ModelConfig c;
  c.architecture = "LlamaForCausalLM";
  c.model_type = "llama";
  c.vocab_size = 49152;
  c.hidden_size = 576;
  c.intermediate_size = 1536;
  c.n_layers = 30;
  c.n_heads = 9;
  c.n_kv_heads = 3;
  c.head_dim = 64;
  c.rope_theta = 100000.0;
  c.rms_norm_eps = 1e-5;
  c.max_position = std::max<std::int64_t>(2048, o.seq);
  c.tie_embeddings = true;
  if (o.size == "360m") {
    c.hidden_size = 960;
    c.intermediate_size = 2560;
    c.n_layers = 32;
    c.n_heads = 15;
    c.n_kv_heads = 5;
  } else if (o.size == "small") {
    c.vocab_size = 8192;
    c.hidden_size = 512;
    c.n_layers = 6;
    c.n_heads = 8;
    c.n_kv_heads = 4;
  } else if (o.size == "tiny") {
    c.vocab_size = 1024;
    c.hidden_size = 64;
    c.intermediate_size = 128;
    c.n_layers = 2;
    c.n_heads = 4;
    c.n_kv_heads = 2;
    c.head_dim = 16;
  } else {
    require(o.size == "135m", "bench train: size '{}' is not known; choose 135m, 360m, small or tiny", o.size);
  }
  return c;
}

namespace {

/// Uniform values of the deviation that a fresh model has; drawn on all threads, because only their size matters here.
Tensor random_weight(const nn::ParameterSpec& spec) {
  std::vector<float> values(static_cast<std::size_t>(Type{DType::f32, spec.shape}.elements()), 1.0F);
  if (spec.init_std != 0.0) {
    const Philox philox(1, spec.name);
    const auto width = static_cast<float>(spec.init_std * 3.4641016);
    parallel_for(static_cast<std::int64_t>(values.size() / 4), 1 << 14, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        const Philox::Counter c = philox.block({static_cast<std::uint32_t>(i), 0, 0, 0});
        for (std::size_t k = 0; k < 4; ++k) {
          values[static_cast<std::size_t>(i) * 4 + k] = (Philox::to_uniform(c[k]) - 0.5F) * width;
        }
      }
    });
  }
  return Tensor::from(values, spec.shape);
}

data::Batch random_batch(const ModelConfig& c, const BenchmarkOptions& o) {
  data::Batch b;
  b.grains = o.batch;
  b.tokens = o.seq;
  const Philox philox(2, "ids");
  for (std::int64_t i = 0; i < o.batch * o.seq; ++i) {
    b.ids.push_back(static_cast<std::int32_t>(philox.bits(static_cast<std::uint64_t>(i)) %
                                              static_cast<std::uint32_t>(c.vocab_size)));
    b.positions.push_back(static_cast<std::int32_t>(i % o.seq));
    b.starts.push_back(0);
  }
  b.targets = b.ids;
  std::rotate(b.targets.begin(), b.targets.begin() + 1, b.targets.end());
  return b;
}

}  // namespace

BenchmarkResult benchmark_training(const BenchmarkOptions& o, dist::Communicator& world) {
  require(o.seq % kAttentionBlock == 0, "bench train: a sequence of {} tokens is not a multiple of {}", o.seq,
          kAttentionBlock);
  const ModelConfig config = benchmark_config(o);
  Recipe recipe;
  recipe.grain_tokens = o.seq;
  recipe.grains = o.batch;
  recipe.dtype = o.dtype;
  recipe.recompute = o.recompute;
  recipe.steps = o.steps + 1;
  recipe.data_mode = o.data_mode;
  dist::TimedCommunicator ranks(world);
  Stepper stepper(config, recipe, o.batch, ranks);
  const Shards& shards = stepper.shards();
  TrainState state;
  std::size_t parameter_bytes = 0;
  for (std::size_t i = 0; i < shards.specs().size(); ++i) {
    const nn::ParameterSpec& s = shards.specs()[i];
    const Tensor whole = random_weight(s);
    state.parameters.set(s.name, shards.cut_parameters() ? shards.slice_of(i, whole) : whole);
    state.m.set(s.name, shards.zero_moment(i));
    state.v.set(s.name, shards.zero_moment(i));
    parameter_bytes += Type{DType::f32, s.shape}.bytes();
  }
  const data::Batch batch = random_batch(config, o);
  BenchmarkResult result;
  result.planned_bytes = 4 * parameter_bytes + stepper.memory(stepper.grains_at_once()).arena;
  std::vector<double> seconds;
  for (std::int64_t i = 0; i <= o.steps; ++i) {
    dist::barrier(ranks);
    const std::size_t before = ranks.traffic().sent;
    const auto start = std::chrono::steady_clock::now();
    result.loss = stepper.step(state, batch).loss;
    result.sent_bytes = ranks.traffic().sent - before;
    if (i > 0) {
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
  }
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end());
  result.seconds = seconds[seconds.size() / 2];
  result.tok_s = static_cast<double>(o.batch * o.seq) / result.seconds;
  return result;
}

}  // namespace isotone::train
