// Where the parts of a value lie on a mesh of workers: data beside the graph, of which models know nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/reduction_tree.h"
#include "ir/type.h"

namespace isotone::ir {

/// One named axis of a mesh ("data", "tensor", ...) and how many workers lie along it.
struct MeshAxis {
  std::string name;
  int size = 1;
};

/// Workers in a grid. Ranks count through it with the last axis fastest.
class Mesh {
 public:
  /// Throws Error for a size below 1 or a name twice.
  explicit Mesh(std::vector<MeshAxis> axes = {});

  [[nodiscard]] const std::vector<MeshAxis>& axes() const { return axes_; }
  [[nodiscard]] int ranks() const;
  /// Index of the axis of this name; throws Error naming those there are.
  [[nodiscard]] int axis(std::string_view name) const;
  /// Where `rank` lies along each axis.
  [[nodiscard]] std::vector<int> coordinates(int rank) const;
  /// The ranks that differ from `rank` along `axis` only, itself among them, in order.
  [[nodiscard]] std::vector<int> group(int rank, int axis) const;
  /// "data 2 x tensor 4"
  [[nodiscard]] std::string describe() const;

 private:
  std::vector<MeshAxis> axes_;
};

/// How a value lies along one axis of the mesh: on every worker whole, or cut along one of its dimensions.
struct AxisPlacement {
  /// The dimension that is cut; kWhole: every worker has all of it.
  static constexpr int kWhole = -1;
  int dim = kWhole;
  /// The worker at coordinate c has [borders[c], borders[c + 1]) of the dimension.
  std::vector<std::int64_t> borders;
  /// Cut to save memory alone (a parameter that is gathered whenever it is used): where another input suggests how to
  /// share out a call along this axis, this one does not.
  bool stored = false;

  [[nodiscard]] bool cut() const { return dim != kWhole; }
  [[nodiscard]] Span part(int coordinate) const {
    return {borders[static_cast<std::size_t>(coordinate)], borders[static_cast<std::size_t>(coordinate) + 1]};
  }
  /// Whether the same parts lie at the same places.
  friend bool operator==(const AxisPlacement& a, const AxisPlacement& b) {
    return a.dim == b.dim && a.borders == b.borders;
  }
};

/// One entry for each axis of the mesh; two axes never cut one dimension.
using Placement = std::vector<AxisPlacement>;

/// Whole on every worker of this mesh.
Placement replicated(const Mesh& mesh);

/// Cuts `dim` of length `length` over `workers` as evenly as can be, parting no `unit` (a head's width): at borders of
/// the tree that would reduce it where there are enough, so that it can be reduced in parts; else between any units.
AxisPlacement cut_evenly(int dim, std::int64_t length, int workers, std::int64_t unit = 1);
/// Cuts at the given borders; throws Error unless they ascend from 0.
AxisPlacement cut_at(int dim, std::vector<std::int64_t> borders);

/// Throws Error where a placement does not fit the type or the mesh.
void check_placement(const Placement& placement, const Type& type, const Mesh& mesh);
/// What the worker at `coordinates` holds.
Type local_type(const Type& type, const Placement& placement, const std::vector<int>& coordinates);
/// "[data: dim 0 at 0 2 4, tensor: whole]"
std::string to_string(const Placement& placement, const Mesh& mesh);

}  // namespace isotone::ir
