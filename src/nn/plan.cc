#include "nn/plan.h"

#include <algorithm>
#include <set>

#include <fmt/ranges.h>

#include "base/error.h"

namespace isotone::nn {

namespace {

/// Calls visit(dimension, mesh axis) for every dimension that the plan would cut.
template <class Visit>
void for_each_cut(const ParameterSpec& spec, const Plan& plan, const ir::Mesh& mesh, const Visit& visit) {
  for (std::size_t d = 0; d < spec.axes.size(); ++d) {
    if (const auto found = plan.find(spec.axes[d].name); found != plan.end()) {
      visit(d, static_cast<std::size_t>(mesh.axis(found->second.mesh_axis)));
    }
  }
}

std::int64_t units(const ParameterSpec& spec, std::size_t d) {
  return spec.shape[d] / spec.axes[d].unit;
}

}  // namespace

std::vector<std::string> ready_plan_names() {
  return {"replicated", "tensor", "expert", "stored", "tensor+stored"};
}

Plan ready_plan(std::string_view name) {
  const std::vector<std::string> names = ready_plan_names();
  require(std::find(names.begin(), names.end(), name) != names.end(), "there is no plan '{}'; there are {}", name,
          fmt::join(names, ", "));
  Plan plan;
  if (name.starts_with("tensor")) {
    for (const char* axis : {"heads", "kv_heads", "mlp", "vocab"}) {
      plan[axis] = {"tensor"};
    }
  }
  if (name == "expert") {
    plan["expert"] = {"expert"};
  }
  if (name.ends_with("stored")) {
    plan["embed"] = {"data", true};
  }
  return plan;
}

ir::Placement place(const ParameterSpec& spec, const Plan& plan, const ir::Mesh& mesh) {
  ir::Placement out = ir::replicated(mesh);
  for_each_cut(spec, plan, mesh, [&](std::size_t d, std::size_t a) {
    const int workers = mesh.axes()[a].size;
    if (!out[a].cut() && units(spec, d) >= workers) {
      out[a] = ir::cut_evenly(static_cast<int>(d), spec.shape[d], workers, spec.axes[d].unit);
      out[a].stored = plan.find(spec.axes[d].name)->second.stored;
    }
  });
  return out;
}

std::vector<std::string> explain(const std::vector<ParameterSpec>& specs, const Plan& plan, const ir::Mesh& mesh) {
  std::set<std::string> lines;
  for (const ParameterSpec& spec : specs) {
    const ir::Placement placed = place(spec, plan, mesh);
    for_each_cut(spec, plan, mesh, [&](std::size_t d, std::size_t a) {
      const ir::MeshAxis& axis = mesh.axes()[a];
      const std::string& name = spec.axes[d].name;
      if (placed[a].dim != static_cast<int>(d)) {
        if (units(spec, d) < axis.size) {
          lines.insert(fmt::format("'{}' stays whole: it has {} units for the {} workers of '{}'; at most {} fit", name,
                                   units(spec, d), axis.size, axis.name, units(spec, d)));
        }
        return;
      }
      const std::vector<std::int64_t> nodes = ReductionTree(TreeKind::axis, spec.shape[d]).borders();
      const bool fits = std::all_of(placed[a].borders.begin(), placed[a].borders.end(),
                                    [&](std::int64_t b) { return std::binary_search(nodes.begin(), nodes.end(), b); });
      if (!fits && !placed[a].stored) {
        lines.insert(
            fmt::format("'{}' is cut at {}, where a sum over its {} elements may not be: it is gathered before such a "
                        "sum (the tree's borders are {})",
                        name, ir::to_string(placed[a].borders), spec.shape[d], ir::to_string(nodes)));
      }
    });
  }
  return {lines.begin(), lines.end()};
}

}  // namespace isotone::nn
