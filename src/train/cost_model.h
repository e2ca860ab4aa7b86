// How long a step takes and what it needs, from the model's shape, the chips and how work is cut: a cost model.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "formats/model_config.h"
#include "train/chips.h"
#include "train/shards.h"

namespace isotone::train {

/// Of a decoder. Widths are elements.
struct ModelShape {
  double layers = 0, hidden = 0, mlp = 0, heads = 0, kv_heads = 0;  ///< heads: all of them side by side
  double head_width = 1, vocab = 0;
  bool tied = false;
  double experts = 0, experts_used = 0;  ///< of each layer's MLP; 0: it has one
  [[nodiscard]] double layer_elements() const;
  [[nodiscard]] double elements() const;
};
ModelShape shape_of(const ModelConfig& config);

/// How many ranks each axis has; `interleave`: stages of a rank.
struct MeshShape {
  int data = 1, tensor = 1, pipeline = 1, context = 1, expert = 1;
  int interleave = 1, microbatches = 0;  ///< 0: as many as pipeline stages
  [[nodiscard]] int ranks() const { return data * tensor * pipeline * context; }
};

struct Workload {
  double sequences = 0, tokens = 0;  ///< of a step, on all ranks; of a sequence
  double at_once = 0;                ///< sequences that a rank computes at once, at most; 0: all of a micro-batch
  double value_bytes = 2;            ///< of activations
  bool fp8 = false;                  ///< in matrix products
  DataMode mode = DataMode::zero3;
  /// "none", "light", "mlp", "layer" as in a recipe; "half": every second product is done again.
  std::string recompute = "none";
  double gathered_bytes = 4, gathers = 1;  ///< of a parameter, and how often a step
  double logit_copies = 1;                 ///< f32 logits and what like them is held at once
  bool overlap = false;                    ///< parameters and gradients travel while others are computed with
  bool tensor_overlap = false;             ///< all but the first part of the tensor axis's messages too
};

/// What is measured, on one and two ranks of one machine (bench/simulate.py).
struct FittedConstants {
  double activation_passes = 0;  ///< reads and writes of an activation in a step, all operations together
  /// Of a parameter (f32), each time that a rank computes with it, without the update.
  double parameter_passes = 0;
  double link_share = 1;  ///< of the link's bandwidth
};
/// Those in use.
FittedConstants fitted_constants();

struct Cost {
  double seconds = 0;
  // What they are made of. Messages: as far as computing does not hide them.
  double matmul = 0, activations = 0, parameters = 0, update = 0, bubble = 0;
  double data_messages = 0, tensor_messages = 0, context_messages = 0, expert_messages = 0, pipeline_messages = 0;
  double tokens_a_second = 0, peak_share = 0;  ///< of all chips; of what the data sheet says, as step_flops() counts
  /// Bytes that a rank sends in a step, by axis.
  double data_bytes = 0, tensor_bytes = 0, context_bytes = 0, expert_bytes = 0, pipeline_bytes = 0;
  /// Memory of a rank.
  double parameter_memory = 0, optimiser_memory = 0, gradient_memory = 0, activation_memory = 0;
  [[nodiscard]] double memory() const {
    return parameter_memory + optimiser_memory + gradient_memory + activation_memory;
  }
  [[nodiscard]] double sent() const {
    return data_bytes + tensor_bytes + context_bytes + expert_bytes + pipeline_bytes;
  }
};

/// `network`: bytes a second of a chip to other nodes, one direction. Axes from the innermost: tensor, context, data
/// (of which expert is a part), pipeline. Throws Error where the cut does not fit the model.
Cost cost_of_step(const ModelShape& model, const Chip& chip, double network, const MeshShape& mesh,
                  const Workload& work, const FittedConstants& fit);

}  // namespace isotone::train
