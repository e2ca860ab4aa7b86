#include "train/mesh_function.h"

namespace isotone::train {

MeshFunction::MeshFunction(Function f, std::function<Places()> places, const Grid& grid)
    : f_(f), places_(std::move(places)), grid_(grid), compiled_(std::move(f)) {}

dist::ShardedFunction& MeshFunction::sharded(const std::vector<Type>& types) {
  std::vector<Shape> key;
  for (const Type& t : types) {
    key.push_back(t.shape);
  }
  std::unique_ptr<dist::ShardedFunction>& found = sharded_[key];
  if (found == nullptr) {
    const Places places = places_();
    std::vector<dist::Placed> arguments;
    for (std::size_t i = 0; i < types.size(); ++i) {
      arguments.push_back({types[i], places.arguments.at(i)});
    }
    found = std::make_unique<dist::ShardedFunction>(f_, grid_.mesh(), grid_.model(), arguments, places.results);
  }
  return *found;
}

Tensors MeshFunction::operator()(const Tensors& parts, const std::vector<Type>& types) {
  return whole() ? compiled_(parts) : sharded(types)(parts);
}

device::MemoryReport MeshFunction::memory(const std::vector<Type>& types) {
  return whole() ? compiled_.memory(types) : sharded(types).memory();
}

std::size_t MeshFunction::bytes_sent(const std::vector<Type>& types) {
  std::int64_t bytes = 0;
  if (!whole()) {
    for (const passes::Traffic& t : sharded(types).traffic()) {
      bytes += t.bytes;
    }
  }
  return static_cast<std::size_t>(bytes);
}

}  // namespace isotone::train
