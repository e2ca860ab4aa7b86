// The ranks of a run in a grid: neighbours share one model's graph, and such groups share the grains of a batch.
#pragma once

#include <optional>

#include "dist/subgroup.h"
#include "ir/placement.h"

namespace isotone::train {

/// Ranks along each axis of the mesh that shares a model's graph ([parallel] of a recipe); data ranks are what is left.
struct GridSizes {
  int context = 1;  ///< parts of each grain's tokens
  int expert = 1;   ///< parts of each layer's experts
  int tensor = 1;   ///< parts of heads, feed-forward features and vocabulary
};

class Grid {
 public:
  /// Holds a reference to `world`. Throws Error where its ranks are no multiple of a model group's, naming worlds that
  /// are.
  Grid(const GridSizes& sizes, dist::Communicator& world);
  Grid(const Grid&) = delete;
  Grid& operator=(const Grid&) = delete;

  [[nodiscard]] dist::Communicator& world() const { return world_; }
  /// Those that hold the same parts of the model and other grains.
  [[nodiscard]] dist::Communicator& data() const { return data_ ? *data_ : world_; }
  /// Those that share this rank's grains.
  [[nodiscard]] dist::Communicator& model() const { return *model_; }
  /// Of model(): "context", "expert" and "tensor", those of more than one rank.
  [[nodiscard]] const ir::Mesh& mesh() const { return mesh_; }
  /// Of each rank of model().
  [[nodiscard]] std::vector<int> coordinates(int model_rank) const { return mesh_.coordinates(model_rank); }
  /// The rank of `world` at these places.
  [[nodiscard]] int rank_at(int data_rank, int model_rank) const { return data_rank * mesh_.ranks() + model_rank; }
  /// Whether this rank is the one of its group that holds such a value and speaks for it: along axes where it is not
  /// cut, only the first of those that have the same.
  [[nodiscard]] bool speaks_for(const ir::Placement& placement, int model_rank) const;
  /// Whether it speaks for values that are whole on every rank of its group.
  [[nodiscard]] bool leads() const { return model_->rank() == 0; }

 private:
  dist::Communicator& world_;
  ir::Mesh mesh_;
  mutable std::optional<dist::Subgroup> data_, model_;
};

}  // namespace isotone::train
