// Where two runs part, by what they left in their out folders: metrics, checkpoints, workers.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "train/manifest.h"
#include "train/metrics_lines.h"
#include "train/workers.h"

namespace isotone::train {

struct RunFiles {
  std::string out;
  std::map<std::int64_t, MetricsLine> metrics;   ///< by step
  std::map<std::int64_t, Manifest> checkpoints;  ///< by step
  std::vector<Session> sessions;

  [[nodiscard]] std::string checkpoint(std::int64_t step) const;  ///< its folder
  /// Of the newest checkpoint; null where there is none.
  [[nodiscard]] const Manifest* recipe() const;
};
/// Checkpoints whose manifests cannot be read are left out, and `notes` say so.
RunFiles read_run(const std::string& out, std::vector<std::string>& notes);

/// The first step whose line of metrics differs.
struct StepDifference {
  std::int64_t step = 0;
  std::vector<std::string> fields;  ///< that differ, in the order in which a step makes them
  /// The first grains whose losses differ: one, or a group of neighbours where lines have a hash for each group.
  /// No grains where their losses do not differ.
  std::int64_t first_grain = 0, grains = 0;
};

/// The first tensor, in the model's order, that differs in the first checkpoints that do: parameters, then moments.
struct TensorDifference {
  std::int64_t step = 0;
  std::string name;  ///< in its file: "m." and "v." in front of a parameter's are its moments
  std::size_t tensors = 0, of_tensors = 0;
  std::int64_t element = -1;  ///< the first that differs, row-major; -1: its file does not hold what the manifest says
  float a = 0.0F, b = 0.0F;
  std::uint64_t ulps = 0;
  std::int64_t elements = 0, of_elements = 0;  ///< that differ, of this tensor
  std::string fault;                           ///< where element is -1
};

struct RunsCompared {
  RunFiles a, b;
  std::vector<std::string> notes;
  std::string recipes;                   ///< how the recipes differ; empty: they do not
  std::vector<std::int64_t> steps;       ///< in both runs' metrics
  std::vector<std::int64_t> saved;       ///< steps of which both have a checkpoint
  std::optional<std::int64_t> equal_at;  ///< the newest of them before the first difference
  std::optional<StepDifference> step;
  std::optional<TensorDifference> tensor;

  [[nodiscard]] bool same() const { return !step.has_value() && !tensor.has_value(); }
};

/// Throws Error where a folder is no run's.
RunsCompared compare_runs(const std::string& a, const std::string& b);

}  // namespace isotone::train
