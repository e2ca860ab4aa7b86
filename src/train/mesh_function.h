// A compiled function of a training step, whole on one rank or shared out over the ranks of a model.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "dist/sharded_function.h"
#include "tensor/transforms.h"
#include "train/grid.h"

namespace isotone::train {

class MeshFunction {
 public:
  /// Where each argument and each result lies, of a call with whole arguments of these types.
  struct Places {
    std::vector<ir::Placement> arguments;
    std::vector<std::optional<ir::Placement>> results;
  };
  /// Holds a reference to `grid`.
  MeshFunction(Function f, std::function<Places()> places, const Grid& grid);

  /// This rank's parts of the arguments, whose whole types are `types`; its parts of the results.
  Tensors operator()(const Tensors& parts, const std::vector<Type>& types);
  [[nodiscard]] device::MemoryReport memory(const std::vector<Type>& types);
  /// Bytes that this rank sends to others of its model in a call.
  [[nodiscard]] std::size_t bytes_sent(const std::vector<Type>& types);

 private:
  [[nodiscard]] bool whole() const { return grid_.mesh().ranks() == 1; }
  dist::ShardedFunction& sharded(const std::vector<Type>& types);

  Function f_;
  std::function<Places()> places_;
  const Grid& grid_;
  Compiled compiled_;
  std::map<std::vector<Shape>, std::unique_ptr<dist::ShardedFunction>> sharded_;
};

}  // namespace isotone::train
