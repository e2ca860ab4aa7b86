#include "ir/placement.h"

#include <algorithm>

#include "base/error.h"

namespace isotone::ir {

Mesh::Mesh(std::vector<MeshAxis> axes) : axes_(std::move(axes)) {
  std::int64_t ranks = 1;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    require(axes_[i].size >= 1, "mesh: axis '{}' has {} workers; 1 is the least", axes_[i].name, axes_[i].size);
    for (std::size_t j = 0; j < i; ++j) {
      require(axes_[i].name != axes_[j].name, "mesh: the axis '{}' is there twice", axes_[i].name);
    }
    ranks *= axes_[i].size;
    require(ranks <= (1 << 20), "mesh: {} has more than a million workers", describe());
  }
}

int Mesh::ranks() const {
  int n = 1;
  for (const MeshAxis& a : axes_) {
    n *= a.size;
  }
  return n;
}

int Mesh::axis(std::string_view name) const {
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].name == name) {
      return static_cast<int>(i);
    }
  }
  fail("the mesh ({}) has no axis '{}'", describe(), name);
}

std::vector<int> Mesh::coordinates(int rank) const {
  require(rank >= 0 && rank < ranks(), "mesh: {} has no rank {}", describe(), rank);
  std::vector<int> out(axes_.size());
  for (std::size_t i = axes_.size(); i-- > 0;) {
    out[i] = rank % axes_[i].size;
    rank /= axes_[i].size;
  }
  return out;
}

std::vector<int> Mesh::group(int rank, int axis) const {
  const std::vector<int> at = coordinates(rank);
  int stride = 1;
  for (std::size_t i = axes_.size(); i-- > static_cast<std::size_t>(axis) + 1;) {
    stride *= axes_[i].size;
  }
  const auto a = static_cast<std::size_t>(axis);
  std::vector<int> out;
  for (int c = 0; c < axes_[a].size; ++c) {
    out.push_back(rank + (c - at[a]) * stride);
  }
  return out;
}

std::string Mesh::describe() const {
  std::string out;
  for (const MeshAxis& a : axes_) {
    out += fmt::format("{}{} {}", out.empty() ? "" : " x ", a.name, a.size);
  }
  return out.empty() ? "one worker" : out;
}

Placement replicated(const Mesh& mesh) {
  return Placement(mesh.axes().size());
}

AxisPlacement cut_evenly(int dim, std::int64_t length, int workers, std::int64_t unit) {
  require(unit >= 1 && length % unit == 0, "a dimension of {} has no whole number of units of {}", length, unit);
  AxisPlacement out{dim, {0}, false};
  std::vector<std::int64_t> places;
  if (length > 0) {
    places = ReductionTree(TreeKind::axis, length).borders();
    std::erase_if(places, [unit](std::int64_t b) { return b % unit != 0; });
  }
  for (std::int64_t w = 1; w <= workers; ++w) {
    const std::int64_t even = length / unit * w / workers * unit;
    if (static_cast<int>(places.size()) <= workers || w == workers) {
      out.borders.push_back(even);
      continue;
    }
    // The nearest place that leaves one for every worker, before and after.
    const auto first = std::upper_bound(places.begin(), places.end(), out.borders.back());
    const auto last = places.end() - (workers - w);
    out.borders.push_back(*std::min_element(first, last, [&](std::int64_t l, std::int64_t r) {
      return std::abs(l * workers - length * w) < std::abs(r * workers - length * w);
    }));
  }
  return out;
}

AxisPlacement cut_at(int dim, std::vector<std::int64_t> borders) {
  require(dim >= 0 && borders.size() >= 2 && borders[0] == 0 && std::is_sorted(borders.begin(), borders.end()),
          "a cut of dimension {} needs borders that ascend from 0", dim);
  return {dim, std::move(borders), false};
}

void check_placement(const Placement& placement, const Type& type, const Mesh& mesh) {
  require(placement.size() == mesh.axes().size(), "a placement of {} axes on a mesh of {} ({})", placement.size(),
          mesh.axes().size(), mesh.describe());
  for (std::size_t a = 0; a < placement.size(); ++a) {
    const AxisPlacement& p = placement[a];
    if (!p.cut()) {
      continue;
    }
    require(p.dim >= 0 && p.dim < type.rank(), "{}: {} has no dimension {} to cut", mesh.axes()[a].name,
            to_string(type), p.dim);
    require(static_cast<int>(p.borders.size()) == mesh.axes()[a].size + 1 && p.borders[0] == 0 &&
                std::is_sorted(p.borders.begin(), p.borders.end()) &&
                p.borders.back() == type.shape[static_cast<std::size_t>(p.dim)],
            "{}: the cut {} of dimension {} does not fit {} on {} workers", mesh.axes()[a].name, to_string(p.borders),
            p.dim, to_string(type), mesh.axes()[a].size);
    require(!is_quantised(type.dtype) || p.dim + 1 < type.rank(), "{}: rows of quantised {} stay whole",
            mesh.axes()[a].name, to_string(type));
    for (std::size_t b = 0; b < a; ++b) {
      require(placement[b].dim != p.dim, "dimension {} of {} is cut along '{}' and along '{}'; only one may", p.dim,
              to_string(type), mesh.axes()[b].name, mesh.axes()[a].name);
    }
  }
}

Type local_type(const Type& type, const Placement& placement, const std::vector<int>& coordinates) {
  Type out = type;
  for (std::size_t a = 0; a < placement.size(); ++a) {
    if (placement[a].cut()) {
      out.shape[static_cast<std::size_t>(placement[a].dim)] = placement[a].part(coordinates[a]).size();
    }
  }
  return out;
}

std::string to_string(const Placement& placement, const Mesh& mesh) {
  std::string out = "[";
  for (std::size_t a = 0; a < placement.size(); ++a) {
    out += fmt::format("{}{}: ", a == 0 ? "" : ", ", mesh.axes()[a].name);
    if (!placement[a].cut()) {
      out += "whole";
      continue;
    }
    out += fmt::format("{}dim {} at", placement[a].stored ? "stored " : "", placement[a].dim);
    for (const std::int64_t b : placement[a].borders) {
      out += fmt::format(" {}", b);
    }
  }
  return out + "]";
}

}  // namespace isotone::ir
