// A tiny Llama and tiny Qwen3 models with random weights, and ways to run it, for the tests of this folder.
#pragma once

#include "base/philox.h"
#include "models/load.h"
#include "models/model.h"

namespace isotone::bits {

inline ModelConfig tiny_config() {
  ModelConfig c;
  c.architecture = "LlamaForCausalLM";
  c.model_type = "llama";
  c.vocab_size = 320;
  c.hidden_size = 96;
  c.intermediate_size = 160;
  c.n_layers = 2;
  c.n_heads = 6;
  c.n_kv_heads = 2;
  c.head_dim = 16;
  c.max_position = 512;
  c.tie_embeddings = true;
  return c;
}

/// Heads whose width is not hidden_size / heads, and an output projection of its own.
inline ModelConfig tiny_qwen3() {
  ModelConfig c = tiny_config();
  c.architecture = "Qwen3ForCausalLM";
  c.model_type = "qwen3";
  c.head_dim = 32;
  c.tie_embeddings = false;
  return c;
}

/// Of three layers the second is dense by name and the others have experts: more of them than most tokens, so that
/// lists of all lengths come up, 0 among them.
inline ModelConfig tiny_qwen3_moe() {
  ModelConfig c = tiny_qwen3();
  c.architecture = "Qwen3MoeForCausalLM";
  c.model_type = "qwen3_moe";
  c.n_layers = 3;
  c.experts = {.count = 11, .per_token = 3, .width = 40, .normalise = true, .dense_layers = {1}};
  return c;
}

/// Parameters in `dtype` with the rotary tables; `constant` as in serving.
inline models::LoadedWeights tiny_weights(const ModelConfig& c, DType dtype, bool constant) {
  models::LoadedWeights w;
  w.compute = dtype;
  const nn::Parameters fresh = nn::initialise(models::architecture_of(c).parameters(c), 7);
  for (const auto& [name, value] : fresh.all()) {
    // Larger than a fresh model's, so that every layer matters; norms not all one.
    const Tensor scaled =
        value.rank() == 1 ? Tensor(ops::mul(value, ops::full({}, 1.25))) : Tensor(ops::mul(value, ops::full({}, 4.0)));
    const Tensor t(ops::cast(scaled, dtype));
    auto bytes = std::make_shared<std::vector<std::byte>>(t.to_bytes());
    w.parameters.set(name, Tensor::adopt(bytes->data(), t.type(), bytes, constant));
  }
  models::add_tables(c, w.parameters);
  return w;
}

inline std::vector<std::int32_t> tiny_ids(std::int64_t n, std::int64_t vocab, std::uint64_t seed = 3) {
  const Philox philox(seed, "ids");
  std::vector<std::int32_t> ids(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<std::int32_t>(philox.bits(i) % static_cast<std::uint32_t>(vocab));
  }
  return ids;
}

}  // namespace isotone::bits
