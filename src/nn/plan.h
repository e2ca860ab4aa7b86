// How the parameters of a model lie on a mesh: a few lines that map logical axes to mesh axes.
#pragma once

#include <map>

#include "ir/placement.h"
#include "nn/parameters.h"

namespace isotone::nn {

/// Logical axis to mesh axis. What is not named stays whole on every worker.
struct PlanEntry {
  std::string mesh_axis;
  /// Cut to save memory only: gathered whenever it is used (ZeRO-3, FSDP).
  bool stored = false;
};
using Plan = std::map<std::string, PlanEntry, std::less<>>;

/// Ready plans by name, for people: "replicated" (nothing is cut), "tensor" (heads, kv_heads, mlp and vocab over the
/// mesh's "tensor"), "expert" (experts over "expert"), "stored" (embed over "data", gathered at use) and
/// "tensor+stored". Throws Error naming them.
Plan ready_plan(std::string_view name);
std::vector<std::string> ready_plan_names();

/// Where a parameter lies. Where a mesh axis has more workers than the parameter's dimension has units, or an earlier
/// dimension took the mesh axis, that dimension stays whole.
ir::Placement place(const ParameterSpec& spec, const Plan& plan, const ir::Mesh& mesh);

/// What does not come out as the plan says, a line each: dimensions that stay whole and why, and cuts at which no
/// reduction may be cut, so that values are gathered there. Empty: the plan fits.
std::vector<std::string> explain(const std::vector<ParameterSpec>& specs, const Plan& plan, const ir::Mesh& mesh);

}  // namespace isotone::nn
