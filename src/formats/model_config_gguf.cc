// GGUF metadata to ModelConfig.
#include <cstdlib>

#include "base/error.h"
#include "formats/json_text.h"
#include "formats/model_config_impl.h"

namespace isotone {
namespace {

/// The shortest decimal that reads back as this float: 1e-05, not 9.999999747378752e-06.
double shortest_of_f32(double value) {
  return std::strtod(fmt::format("{}", static_cast<float>(value)).c_str(), nullptr);
}

/// The experts of a Qwen3-MoE, in the layers that have a router. Their weights are made to add up to 1 unless the file
/// says otherwise: files of this family do without the key, and llama.cpp always does so.
template <class Integer>
ExpertsConfig experts_of(const Gguf& gguf, const Integer& integer) {
  constexpr std::int64_t kSoftmax = 1;
  ExpertsConfig e;
  e.count = integer("expert_count");
  e.per_token = integer("expert_used_count");
  e.width = integer("expert_feed_forward_length");
  const GgufValue* norm = gguf.find_metadata("qwen3moe.expert_weights_norm");
  e.normalise = norm == nullptr || norm->as_boolean();
  const std::int64_t gating = integer("expert_gating_func", kSoftmax);
  require(gating == kSoftmax, "{}: routers of kind {} are not supported, softmax ({}) is", gguf.path(), gating,
          kSoftmax);
  for (std::int64_t i = 0; i < std::min<std::int64_t>(integer("block_count"), kMostLayers); ++i) {
    if (gguf.find_tensor(fmt::format("blk.{}.ffn_gate_inp.weight", i)) == nullptr) {
      e.dense_layers.push_back(i);
    }
  }
  return e;
}

}  // namespace

ModelConfig model_config_of_gguf(const Gguf& gguf) {
  const std::string arch(gguf.require_metadata("general.architecture").as_text());
  const auto* const row =
      std::find_if(kModelFamilies.begin(), kModelFamilies.end(), [&](const auto& a) { return a.gguf == arch; });
  if (row == kModelFamilies.end()) {
    fail("{}: the architecture '{}' is not known; known are llama, qwen2, qwen3 and qwen3moe", gguf.path(), arch);
  }
  const auto integer = [&](std::string_view key, std::optional<std::int64_t> fallback = std::nullopt) {
    const std::string full = fmt::format("{}.{}", arch, key);
    const GgufValue* value = gguf.find_metadata(full);
    return value == nullptr && fallback ? *fallback : gguf.require_metadata(full).as_integer();
  };
  const auto number = [&](std::string_view key, double fallback) {
    const GgufValue* value = gguf.find_metadata(fmt::format("{}.{}", arch, key));
    return value == nullptr ? fallback : shortest_of_f32(value->as_number());
  };
  const auto id = [&](const char* key) -> std::optional<std::int64_t> {
    const GgufValue* value = gguf.find_metadata(key);
    return value == nullptr ? std::nullopt : std::optional(value->as_integer());
  };
  ModelConfig c;
  c.architecture = row->class_name;
  c.model_type = row->model_type;
  const GgufTensor* embedding = gguf.find_tensor("token_embd.weight");
  require(embedding != nullptr && embedding->shape.size() == 2,
          "{}: the tensor 'token_embd.weight' is missing or no matrix", gguf.path());
  c.vocab_size = embedding->shape[0];
  c.hidden_size = integer("embedding_length");
  require(embedding->shape[1] == c.hidden_size, "{}: embeddings are {} wide, {}.embedding_length says {}", gguf.path(),
          embedding->shape[1], arch, c.hidden_size);
  if (c.model_type == "qwen3_moe") {
    c.experts = experts_of(gguf, integer);
  } else {
    require(integer("expert_count", 0) == 0, "{}: experts are not supported in GGUF files of '{}'", gguf.path(), arch);
  }
  c.intermediate_size =
      c.experts.count > 0 ? integer("feed_forward_length", c.experts.width) : integer("feed_forward_length");
  c.n_layers = integer("block_count");
  c.n_heads = integer("attention.head_count");
  c.n_kv_heads = integer("attention.head_count_kv", c.n_heads);
  require(c.n_heads > 0, "{}: {}.attention.head_count is {}", gguf.path(), arch, c.n_heads);
  require(gguf.find_metadata(arch + ".attention.key_length") != nullptr || c.hidden_size % c.n_heads == 0,
          "{}: embedding_length {} does not divide into {} attention heads", gguf.path(), c.hidden_size, c.n_heads);
  c.head_dim = integer("attention.key_length", c.hidden_size / c.n_heads);
  const std::int64_t rotary = integer("rope.dimension_count", c.head_dim);
  require(rotary == c.head_dim, "{}: rotary embedding over {} of {} head dimensions is not supported", gguf.path(),
          rotary, c.head_dim);
  c.rope_theta = number("rope.freq_base", 10000.0);
  c.rms_norm_eps = number("attention.layer_norm_rms_epsilon", 1e-6);
  c.max_position = integer("context_length", c.max_position);
  c.tie_embeddings = gguf.find_tensor("output.weight") == nullptr;
  c.attention_bias = gguf.find_tensor("blk.0.attn_q.bias") != nullptr;
  c.mlp_bias = gguf.find_tensor("blk.0.ffn_up.bias") != nullptr;
  const GgufValue* scaling = gguf.find_metadata(arch + ".rope.scaling.type");
  if (scaling != nullptr && scaling->as_text() != "none") {
    c.rope_scaling =
        json_line({{"rope_type", std::string(scaling->as_text())}, {"factor", number("rope.scaling.factor", 1)}});
  } else if (gguf.find_tensor("rope_freqs.weight") != nullptr) {
    c.rope_scaling = json_line({{"rope_type", "frequency_factors"}});
  }
  c.bos_id = id("tokenizer.ggml.bos_token_id");
  c.pad_id = id("tokenizer.ggml.padding_token_id");
  for (const char* key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    if (const auto eos = id(key)) {
      add_ids(c.eos_ids, {*eos});
    }
  }
  check_model_config(c, gguf.path());
  c.raw_json = model_config_json(c);
  return c;
}

}  // namespace isotone
