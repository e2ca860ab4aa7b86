#include "dist/sharded_function.h"

#include "base/error.h"
#include "dist/graph_transport.h"
#include "tensor/trace.h"

namespace isotone::dist {

ShardedFunction::ShardedFunction(const Function& f, const ir::Mesh& mesh, Communicator& world,
                                 const std::vector<Placed>& arguments,
                                 std::vector<std::optional<ir::Placement>> results, const CompileSettings& settings) {
  require(mesh.ranks() == world.size(), "the mesh {} has {} ranks, there are {}", mesh.describe(), mesh.ranks(),
          world.size());
  const std::vector<int> at = mesh.coordinates(world.rank());
  std::vector<Type> whole;
  std::vector<ir::Placement> placements;
  for (const Placed& p : arguments) {
    ir::check_placement(p.placement, p.type, mesh);
    whole.push_back(p.type);
    placements.push_back(p.placement);
    argument_types_.push_back(ir::local_type(p.type, p.placement, at));
  }
  Traced traced = trace(f, whole);
  placements.resize(traced.graph.inputs.size(), ir::replicated(mesh));  // what f captured
  results.resize(traced.graph.outputs.size());
  passes::Sharded mine = passes::shard(traced.graph, {mesh, world.rank(), placements, results});
  for (std::size_t i = 0; i < mine.results.size(); ++i) {
    const Type& type = traced.graph.types[static_cast<std::size_t>(traced.graph.outputs[i])];
    results_.push_back({type, mine.results[i]});
    result_types_.push_back(ir::local_type(type, mine.results[i], at));
  }
  traffic_ = std::move(mine.traffic);
  captured_ = std::move(traced.captured);
  executable_ = compile_traced(std::move(mine.graph), settings, graph_transport(world));
}

Tensors ShardedFunction::operator()(const Tensors& parts) {
  require(parts.size() == argument_types_.size(), "{} parts are given, {} expected", parts.size(),
          argument_types_.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    require(parts[i].type() == argument_types_[i], "part {} is {}, this worker's is {}", i,
            ir::to_string(parts[i].type()), ir::to_string(argument_types_[i]));
  }
  const std::vector<device::BufferPtr> outputs = executable_->run(buffers_of(parts, captured_));
  Tensors out;
  for (std::size_t i = 0; i < results_.size(); ++i) {
    out.emplace_back(ir::leaf(result_types_[i], outputs[i]));
  }
  return out;
}

Tensor part_of(const Tensor& whole, const ir::Placement& placement, const std::vector<int>& coordinates) {
  Value v = whole;
  for (std::size_t a = 0; a < placement.size(); ++a) {
    if (placement[a].cut()) {
      const Span mine = placement[a].part(coordinates[a]);
      v = ops::slice_axis(v, placement[a].dim, mine.begin, mine.end);
    }
  }
  return v;
}

}  // namespace isotone::dist
