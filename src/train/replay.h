// Steps of a run done again from what it left, to learn which of two runs cannot be reproduced, and where.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "device/device.h"
#include "train/compare_runs.h"
#include "train/op_difference.h"

namespace isotone::train {

struct Replayed {
  std::int64_t from_step = 0;  ///< of the checkpoint it began with; 0: of the start
  std::int64_t step = 0;       ///< the one that was judged
  bool by_checkpoint = false;  ///< by the checkpoint after it; else by its line of metrics
  bool like_a = false, like_b = false;
  std::int64_t grain = 0;          ///< whose operations were looked at
  std::optional<OpDifference> op;  ///< of the two recipes; or, where they are equal, of this machine and the reference
  std::size_t operations = 0;      ///< that were compared
};

struct ReplayOptions {
  /// Runs operations by their scalar definitions; null: they are not compared with this machine's kernels.
  std::shared_ptr<device::Device> reference;
  std::function<void(const std::string&)> on_note;
  std::function<void(std::size_t, std::size_t)> on_operation;  ///< done, of all
};

/// Where the recipes are equal: does the steps before the first difference again, from the newest common checkpoint or
/// the start, on this machine, and says which run the result agrees with; then runs one grain of that step operation by
/// operation, by this machine's kernels and by the reference. Where recipes differ: runs that grain under both,
/// operation by operation. Reads the recipes from checkpoints and data from where they say. Throws Error where that
/// cannot be.
Replayed replay(const RunsCompared& runs, const ReplayOptions& options);

}  // namespace isotone::train
