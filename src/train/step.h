// One optimiser step: gradients of a global batch in the contract's order (docs/numerics.md, section 6), then AdamW.
#pragma once

#include "base/exact_sum.h"
#include "base/timeline.h"
#include "data/batch.h"
#include "models/model.h"
#include "tensor/transforms.h"
#include "train/audit.h"
#include "train/checkpoint.h"
#include "train/grain_hashes.h"
#include "train/mesh_function.h"
#include "train/recipe.h"
#include "train/shards.h"

namespace isotone::train {

struct StepResult {
  double loss = 0.0;        ///< mean negative log-likelihood of the learned tokens, exact sum rounded once
  float grad_norm = 0.0F;   ///< before clipping
  std::int64_t tokens = 0;  ///< learned ones
  std::string batch_sha256;
  double balance = 0.0;  ///< mean balance loss of the grains (nn/experts.h), unweighted; 0 where it is not added
  std::vector<std::uint64_t> grain_losses;  ///< of each grain, a hash of its tokens' losses (grain_hashes.h)
  std::int64_t audited = 0;                 ///< grains that were computed a second time, by all ranks together
};

class Stepper {
 public:
  /// `micro_grains`: most grains computed at once. Every rank of `ranks`, which must outlive the stepper, makes the
  /// same calls and owns some of each round's grains. Neither shows in a result.
  Stepper(const ModelConfig& config, const Recipe& recipe, std::int64_t micro_grains, dist::Communicator& ranks);

  /// How a state lies on the ranks; `state` below is this rank's.
  [[nodiscard]] const Shards& shards() const { return shards_; }
  /// Computes a share of all grains a second time from now on (audit.h). The same on every rank.
  void set_audit(AuditOptions options);
  /// Does step `state.step` on the global batch and counts it. Throws Error naming the first tensor that is not finite,
  /// on every rank the same; the state is then as before.
  StepResult step(TrainState& state, const data::GlobalBatch& batch);
  /// Mean loss of the learned tokens of a batch, forward only.
  double evaluate(const TrainState& state, const data::GlobalBatch& batch);
  /// Grains that this rank computes at once, at most.
  [[nodiscard]] std::int64_t grains_at_once() const;
  /// Where the parts of a step are written down; null: nowhere.
  void set_timeline(Timeline* timeline) { timeline_ = timeline; }
  /// Losses and gradients of some grains as a graph that nothing has rewritten yet, with what it reads: for whoever
  /// looks at a step operation by operation. Of a process that is alone.
  struct Recorded {
    ir::Graph graph;
    std::vector<device::BufferPtr> inputs;
    std::vector<std::string> names;  ///< of the inputs; tables that the model captures have none
  };
  Recorded record(const TrainState& state, const data::Batch& part, float weight);
  /// Memory of the gradient step's plan for a micro-batch of `grains`, known before anything runs. Bytes.
  device::MemoryReport memory(std::int64_t grains);
  /// Bytes that this rank sends in a step to the others of its model.
  std::size_t bytes_sent_in_model();

 private:
  /// What a compiled step gives beside the losses: nothing, gradients by use, or gradients by parameter.
  enum class Want { losses, uses, sums };
  /// Exact sums over what a step computes.
  struct Sums {
    ExactSum loss, squares, balance;
  };
  Tensors losses_of(const Tensors& arguments, Want want);
  /// Whether the global batch is computed at once.
  [[nodiscard]] bool whole_batch() const {
    return shards_.size() == 1 && recipe_.rounds == 1 && recipe_.grains <= micro_grains_;
  }
  Tensors gradients(const nn::Parameters& parameters, const data::Batch& batch, float weight, Sums& sums);
  Tensors sum_of_rounds(const nn::Parameters& parameters, const data::GlobalBatch& batch, float weight, Sums& sums);
  void update(TrainState& state, Tensors gradients, float clip);
  Tensors batch_tensors(const data::Batch& batch) const;
  /// Of a compiled step over some grains: whole types of its arguments, where those and its results lie on the model's
  /// ranks, and this rank's parts of the arguments.
  [[nodiscard]] std::vector<Type> argument_types(std::int64_t grains) const;
  [[nodiscard]] MeshFunction::Places places(Want want) const;
  [[nodiscard]] ir::Placement token_placement() const;
  [[nodiscard]] Tensors arguments_of(const nn::Parameters& parameters, const data::Batch& batch, float weight) const;
  /// Adds the losses of a part of the batch to `sum`, on one rank of those that have them.
  void add_losses(const Tensor& losses, ExactSum& sum) const;
  [[nodiscard]] MeshFunction& gradient_step() { return whole_batch() ? whole_ : micro_; }
  /// The grains of each round whose gradients this rank computes.
  [[nodiscard]] std::vector<Span> own_grains() const;
  /// An even share of a batch, for what is done grain by grain.
  [[nodiscard]] Span own_share(const data::GlobalBatch& batch) const;
  /// Calls `each` for the parts of `batch` that this rank has to look at, in order; the second is the first grain's
  /// number.
  void for_own_parts(const data::GlobalBatch& batch,
                     const std::function<void(const data::Batch&, std::int64_t)>& each) const;
  [[noreturn]] void name_fault(std::int64_t step, const nn::Parameters& parameters, const data::GlobalBatch& batch,
                               const Tensors& gradients);

  ModelConfig config_;
  Recipe recipe_;
  std::int64_t micro_grains_;
  double balance_;  // weight of the balance loss
  const models::Architecture& architecture_;
  std::vector<nn::ParameterSpec> specs_;
  std::size_t shared_;  // the parameter with two uses
  Grid grid_;
  Shards shards_;
  nn::Parameters tables_;
  GrainHashes grain_losses_;
  Timeline* timeline_ = nullptr;
  Audit audit_{{}, 0, {}};
  MeshFunction micro_, whole_, forward_;
  Compiled add_, join_, update_;
};

}  // namespace isotone::train
