// A function over whole tensors, computed by the workers of a mesh on parts of them.
#pragma once

#include <optional>

#include "dist/communicator.h"
#include "ir/placement.h"
#include "passes/shard.h"
#include "tensor/transforms.h"

namespace isotone::dist {

/// A whole value and where its parts lie.
struct Placed {
  Type type;
  ir::Placement placement;
};

/// f, traced once on whole types; each worker keeps and runs its own part of the graph. Every worker of the mesh makes
/// the same object and the same calls. Results have the bits that f has on one worker.
class ShardedFunction {
 public:
  /// `results`: where each result is wanted; none, or the list empty: wherever it comes to lie. `world` has the mesh's
  /// ranks, and must outlive the function. Throws Error where a placement does not fit.
  ShardedFunction(const Function& f, const ir::Mesh& mesh, Communicator& world, const std::vector<Placed>& arguments,
                  std::vector<std::optional<ir::Placement>> results = {}, const CompileSettings& settings = {});

  /// This worker's parts of the arguments; its parts of the results.
  Tensors operator()(const Tensors& parts);
  [[nodiscard]] const std::vector<Placed>& results() const { return results_; }
  [[nodiscard]] const std::vector<passes::Traffic>& traffic() const { return traffic_; }
  [[nodiscard]] device::MemoryReport memory() const { return executable_->memory(); }

 private:
  std::vector<Type> argument_types_;  // of the parts
  std::vector<Placed> results_;
  std::vector<Type> result_types_;  // of the parts
  std::vector<passes::Traffic> traffic_;
  std::vector<device::BufferPtr> captured_;
  std::unique_ptr<device::Executable> executable_;
};

/// This rank's part of a whole tensor.
Tensor part_of(const Tensor& whole, const ir::Placement& placement, const std::vector<int>& coordinates);

}  // namespace isotone::dist
