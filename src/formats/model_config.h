// What a language model's files say about its shape, as one plain struct whatever the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "formats/gguf.h"

namespace isotone {

/// The feed-forward part of layers that have experts (Qwen3-MoE). No experts: a dense model.
struct ExpertsConfig {
  std::int64_t count = 0;                  ///< num_experts
  std::int64_t per_token = 0;              ///< num_experts_per_tok
  std::int64_t width = 0;                  ///< moe_intermediate_size
  bool normalise = false;                  ///< norm_topk_prob: the weights of a token's experts add up to 1
  std::int64_t sparse_step = 1;            ///< decoder_sparse_step: every so manyth layer has experts
  std::vector<std::int64_t> dense_layers;  ///< mlp_only_layers: these have none
  bool balance = false;                    ///< output_router_logits: training adds the balance loss
  double balance_weight = 0.001;           ///< router_aux_loss_coef
  /// Whether layer `i`, from 0, has experts.
  [[nodiscard]] bool sparse(std::int64_t i) const;
};

/// A decoder's configuration. Counts are checked: positive, sane, and divisible where they must be.
struct ModelConfig {
  std::string architecture;  ///< Hugging Face class name: "LlamaForCausalLM"
  std::string model_type;    ///< "llama", "qwen2", "qwen3", "qwen3_moe", ...
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t n_layers = 0;
  std::int64_t n_heads = 0;
  std::int64_t n_kv_heads = 0;
  std::int64_t head_dim = 0;
  double rope_theta = 10000.0;
  double rms_norm_eps = 1e-6;
  std::int64_t max_position = 2048;  ///< tokens the model was made for
  bool tie_embeddings = false;       ///< the output projection is the embedding
  bool attention_bias = false;
  bool mlp_bias = false;
  std::optional<std::int64_t> bos_id;
  std::vector<std::int64_t> eos_ids;  ///< any of them ends an answer; may be empty
  std::optional<std::int64_t> pad_id;
  std::string hidden_act = "silu";
  ExpertsConfig experts;
  std::int64_t sliding_window = 0;  ///< tokens that attention looks back; 0: all
  std::optional<DType> dtype;       ///< of the weights, where the file says
  std::string rope_scaling;         ///< JSON text of the scaling rule; empty where there is none
  std::string generation_json;      ///< text of generation_config.json; empty where there is none
  std::string raw_json;             ///< text of config.json; of GGUF an equivalent one made from the metadata
};

/// From the text of config.json; `what` stands in front of messages. Reads the spellings of transformers 4 and 5
/// (rope_theta or rope_parameters, torch_dtype or dtype).
ModelConfig parse_model_config(const std::string& json_text, const std::string& what);

/// Adds what generation_config.json says: further end tokens.
void apply_generation_config(ModelConfig& config, const std::string& json_text, const std::string& what);

/// From GGUF metadata. Architectures: llama (Mistral included), qwen2, qwen3, qwen3moe; others throw Error with the
/// list.
ModelConfig model_config_of_gguf(const Gguf& gguf);

/// Throws Error naming the field and the rule it breaks.
void check_model_config(const ModelConfig& config, const std::string& what);

/// config.json as transformers 4 and 5 read it.
std::string model_config_json(const ModelConfig& config);

}  // namespace isotone
