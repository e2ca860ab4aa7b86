// What a run would take of each rank: `isotone train --plan`.
#include "train/plan.h"

#include <algorithm>
#include <map>

#include "dist/silent_rank.h"
#include "train/run.h"
#include "train/setup.h"
#include "train/step.h"

namespace isotone::train {
namespace {

std::size_t float_bytes(std::int64_t elements) {
  return static_cast<std::size_t>(elements) * sizeof(float);
}

RankPlan plan_rank(const Recipe& r, Stepper& stepper, std::size_t whole, std::map<std::int64_t, std::size_t>& arenas) {
  const Shards& shards = stepper.shards();
  const dist::TreeParts parts = shards.parts_of(r.grains);
  const std::vector<Span> nodes = parts.nodes(shards.rank());
  RankPlan p;
  p.first = p.last = shards.rank();
  p.grains = parts.parts[static_cast<std::size_t>(shards.rank())].size();
  p.nodes = static_cast<std::int64_t>(nodes.size());
  p.micro_grains = p.grains == 0 ? 0 : stepper.grains_at_once();
  std::int64_t largest = 0;
  for (const Span node : nodes) {
    largest = std::max(largest, node.size());
  }
  const std::size_t slices = float_bytes(shards.elements()), slices_of_uses = float_bytes(shards.gradient_elements());
  // Where slices are updated, whole parameters lie beside them.
  p.parameters = whole + (shards.cut_optimiser() ? slices : 0);
  p.optimiser = 2 * (shards.cut_optimiser() ? slices : whole);
  const std::size_t a_node = p.grains == 0 ? 0 : float_bytes(shards.uses_elements());
  if (shards.size() == 1) {
    const bool at_once = p.micro_grains >= r.grains && r.rounds == 1;
    p.gradients = at_once ? whole : 2 * a_node;
  } else {
    // A node's, and a second one where it is not computed at once; then slices of nodes, of the round and of all
    // rounds.
    p.gradients = (largest > p.micro_grains ? 2 : 1) * a_node +
                  (nodes.size() + (r.rounds > 1 ? 2 : 1)) * slices_of_uses + (shards.cut_optimiser() ? 0 : whole);
  }
  p.sent_a_step = shards.bytes_sent(r.rounds, r.grains) + stepper.bytes_sent_in_model();
  if (p.micro_grains > 0) {
    const auto [at, fresh] = arenas.try_emplace(p.micro_grains, 0);
    if (fresh) {
      at->second = stepper.memory(p.micro_grains).arena;
    }
    p.activations = at->second;
  }
  return p;
}

/// Ranks with as much to compute and to send differ in the last elements of their slices only.
bool alike(const RankPlan& a, const RankPlan& b) {
  return a.grains == b.grains && a.nodes == b.nodes;
}

}  // namespace

const RankPlan& RunPlan::most() const {
  return *std::max_element(ranks.begin(), ranks.end(),
                           [](const RankPlan& a, const RankPlan& b) { return a.total() < b.total(); });
}

std::size_t planned_bytes(const Recipe& r, Stepper& stepper) {
  std::map<std::int64_t, std::size_t> arenas;
  std::size_t whole = 0;
  for (const nn::ParameterSpec& p : stepper.shards().specs()) {
    whole += Type{DType::f32, p.shape}.bytes();
  }
  return plan_rank(r, stepper, whole, arenas).total();
}

RunPlan plan_run(const Recipe& r, const RunOptions& o, int world) {
  const Setup s = open_setup(r);
  RunPlan plan;
  plan.world = world;
  plan.grains = r.rounds * r.grains;
  plan.tokens_a_step = plan.grains * r.grain_tokens;
  std::size_t whole = 0;
  for (const nn::ParameterSpec& p : s.specs) {
    whole += Type{DType::f32, p.shape}.bytes();
  }
  std::map<std::int64_t, std::size_t> arenas;  // by grains at once
  for (int rank = 0; rank < world; ++rank) {
    dist::SilentRank silent(rank, world);
    Stepper stepper(s.config, r, o.micro_grains_of(r), silent);
    const RankPlan p = plan_rank(r, stepper, whole, arenas);
    if (!plan.ranks.empty() && alike(plan.ranks.back(), p)) {
      const int first = plan.ranks.back().first;
      if (p.total() > plan.ranks.back().total()) {
        plan.ranks.back() = p;
      }
      plan.ranks.back().first = first;
      plan.ranks.back().last = rank;
    } else {
      plan.ranks.push_back(p);
    }
  }
  return plan;
}

}  // namespace isotone::train
