// A whole training run: data, steps, evaluation, checkpoints, metrics, and going on where an earlier run stopped.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "dist/communicator.h"
#include "train/audit.h"
#include "train/recipe.h"

namespace isotone::train {

struct RunOptions {
  /// "auto": go on from the newest good checkpoint in the recipe's out folder; "never": start anew (the folder must
  /// hold no checkpoint); else the path of a checkpoint.
  std::string resume = "auto";
  /// Go on from a checkpoint of another recipe too, the one whose fingerprint is this or begins so (8 digits or more).
  std::string accept_recipe;
  /// Stop after this many steps of this call, with a checkpoint; 0: go on to the end.
  std::int64_t stop_after = 0;
  /// Most grains computed at once; 0: chosen from the grain's length. Never shows in a result.
  std::int64_t micro_grains = 0;
  /// Files to watch the run by (watch.h), "" for none: a timeline of all ranks; event files, in this folder; figures
  /// for Prometheus. The last two in place of the recipe's.
  std::string timeline, tensorboard, prometheus;
  AuditOptions audit;  ///< no grain by default
  /// Most grains computed at once for this recipe.
  [[nodiscard]] std::int64_t micro_grains_of(const Recipe& recipe) const;
};

/// What a step took on this rank. Measured: it differs from run to run, unlike the numbers of the report.
struct StepCost {
  double seconds = 0.0;
  double communication_share = 0.0;  ///< of the seconds, in handing messages over and waiting for them
  double peak_share = 0.0;           ///< of what all ranks' matrix products reach (step_flops.h)
  std::size_t sent_bytes = 0, received_bytes = 0;
  std::size_t planned_bytes = 0, resident_bytes = 0;  ///< as RankPlan::total(); and what the process holds
};

struct StepReport {
  std::int64_t step = 0, steps = 0;     ///< done, of all
  double loss = 0.0, eval_loss = -1.0;  ///< eval_loss below 0: none at this step
  float grad_norm = 0.0F;
  double balance = 0.0;  ///< balance loss of the experts; 0: none is added
  double lr = 0.0, tok_s = 0.0, seconds_left = 0.0;
  std::int64_t tokens = 0;
  std::string batch_sha256;
  std::vector<std::uint64_t> grain_losses;  ///< a hash of each grain's losses
  StepCost cost;
};

struct RunObserver {
  std::function<void(const StepReport&)> on_step;
  /// Things worth telling: resuming, a damaged checkpoint, a saved one.
  std::function<void(const std::string&)> on_note;
};

struct RunResult {
  std::int64_t step = 0;
  std::int64_t steps_done = 0;  ///< by this call
  double loss = 0.0;            ///< of the last of them
  bool finished = false;        ///< all steps of the recipe are done
  std::string checkpoint;       ///< newest one written or found
  std::string curve;            ///< SVG of the loss
  std::size_t planned_peak_bytes = 0;
  std::int64_t audited = 0;  ///< grains of this call that were computed a second time, with equal bits
};

/// What a run would take of some ranks, before anything runs. Bytes; messages on their way are not counted.
struct RankPlan {
  int first = 0, last = 0;  ///< ranks that take about the same: the figures are the largest
  std::int64_t grains = 0;  ///< of each round
  std::int64_t nodes = 0;   ///< of the tree over a round's grains that lack their sibling here, each sent on its own
  std::int64_t micro_grains = 0;
  std::size_t parameters = 0, optimiser = 0, gradients = 0, activations = 0;
  std::size_t sent_a_step = 0;  ///< to other ranks
  [[nodiscard]] std::size_t total() const { return parameters + optimiser + gradients + activations; }
};
struct RunPlan {
  std::int64_t grains = 0, tokens_a_step = 0;
  int world = 1;
  std::vector<RankPlan> ranks;
  /// The ranks that take most.
  [[nodiscard]] const RankPlan& most() const;
};
RunPlan plan_run(const Recipe& recipe, const RunOptions& options, int world = 1);

/// Runs the recipe on all of `ranks`, each of which calls it; on a stop request to any of them they finish the step,
/// save and return. How many ranks there are shows in no number (docs/parallelism.md). Rank 0 writes the metrics; each
/// calls its own observer. Throws Error as docs/training.md lists, on every rank.
RunResult run(const Recipe& recipe, const RunOptions& options, const RunObserver& observer, const std::stop_token& stop,
              dist::Communicator& ranks);

}  // namespace isotone::train
