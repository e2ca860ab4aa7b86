#include "train/grid.h"

#include <numeric>

namespace isotone::train {

namespace {

ir::Mesh mesh_of(const GridSizes& sizes) {
  std::vector<ir::MeshAxis> axes;
  for (const auto& [name, size] :
       {std::pair{"context", sizes.context}, {"expert", sizes.expert}, {"tensor", sizes.tensor}}) {
    require(size >= 1, "parallel.{} is {}; at least 1 is meant", name, size);
    if (size > 1) {
      axes.push_back({name, size});
    }
  }
  return ir::Mesh(std::move(axes));
}

}  // namespace

Grid::Grid(const GridSizes& sizes, dist::Communicator& world) : world_(world), mesh_(mesh_of(sizes)) {
  const int group = mesh_.ranks(), ranks = world.size();
  const int below = ranks / group * group;
  require(ranks % group == 0, "{} ranks cannot be shared out as {}: {} ranks share a model, so {}{} ranks would do",
          ranks, mesh_.describe(), group, below > 0 ? fmt::format("{} or ", below) : "", below + group);
  std::vector<int> data, model(static_cast<std::size_t>(group));
  for (int r = world.rank() % group; r < ranks; r += group) {
    data.push_back(r);
  }
  std::iota(model.begin(), model.end(), world.rank() / group * group);
  if (group > 1) {
    data_.emplace(world, data);
  }
  model_.emplace(world, model);
}

bool Grid::speaks_for(const ir::Placement& placement, int model_rank) const {
  const std::vector<int> at = mesh_.coordinates(model_rank);
  for (std::size_t a = 0; a < placement.size(); ++a) {
    if (!placement[a].cut() && at[a] != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace isotone::train
