// A model of any architecture: its configuration, its parameters, and its forward pass. One file an architecture.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/model_config.h"
#include "nn/attention_state.h"
#include "nn/experts.h"
#include "nn/parameters.h"

namespace isotone::models {

/// What is not kept for the backward pass but computed again there: nothing; the norms and SwiGLU, which cost little
/// time and a third of the memory; also the projections inside the MLP; or everything but the layers' inputs.
enum class Recompute { none, light, mlp, layer };

/// Their names, in order.
std::vector<std::string> recompute_names();

/// The one with this name; throws Error listing the names otherwise.
Recompute parse_recompute(std::string_view name);

/// How a forward pass is computed; nothing here changes what is computed.
struct ForwardOptions {
  /// Dtype of activations; parameters are in it too, or quantised.
  DType compute = DType::f32;
  Recompute recompute = Recompute::none;
  /// Where the routings of the layers that have experts are put, in order; null: nowhere.
  nn::RoutingLog* routing = nullptr;
};

/// What an architecture file defines.
struct Architecture {
  /// model_type of config.json ("llama").
  std::string_view name;
  /// Throws Error for configurations it cannot honour.
  std::vector<nn::ParameterSpec> (*parameters)(const ModelConfig& config);
  /// ids i32 [grain, token], positions i32 [grain, token]; hidden states [grain, token, hidden_size] after the last
  /// norm.
  Tensor (*hidden)(const ModelConfig& config, const nn::Parameters& parameters, const Tensor& ids,
                   const Tensor& positions, nn::AttentionState& attention, const ForwardOptions& options);
  /// f32 logits [..., vocab] of hidden states.
  Tensor (*logits)(const ModelConfig& config, const nn::Parameters& parameters, const Tensor& hidden);
};

/// The architecture of this configuration; throws Error naming those known.
const Architecture& architecture_of(const ModelConfig& config);

/// Names of the rotary tables among the parameters handed to hidden(): f32 [max_position, head_dim / 2]. They are no
/// parameters of the checkpoint; add_tables() puts them there.
inline constexpr const char* kCosTable = "rotary.cos";
inline constexpr const char* kSinTable = "rotary.sin";
void add_tables(const ModelConfig& config, nn::Parameters& parameters);

}  // namespace isotone::models
