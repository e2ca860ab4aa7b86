// What a recipe would take on machines that are not here: `isotone train --simulate`.
#pragma once

#include "train/cost_model.h"
#include "train/run.h"

namespace isotone::train {

/// "1024 x H100, 400 Gb/s, tensor 8, pipeline 4": how many of which chip, the network of each between nodes, and what
/// is not data-parallel.
struct Machines {
  std::string chip;  ///< or "here": ranks share this machine, as its processes do
  int ranks = 0;
  double network = 0;  ///< bytes a second of a chip, one direction; 0: not said
  MeshShape mesh;
  bool fp8 = false, overlap = true;
};
/// Throws Error naming the part that is not understood and what there is.
Machines parse_machines(const std::string& text);

struct Simulation {
  Machines machines;
  Chip chip;  ///< of one rank
  Cost cost;
};
/// Memory on ranks of this machine is that of plan_run(), else the cost model's.
Simulation simulate(const Recipe& recipe, const RunOptions& options, const std::string& machines);

/// Figures that others published, against which the cost model is tried. Nothing is fitted to them.
struct PublishedRow {
  std::string name;
  ModelShape model;
  std::string chip;
  double network = 0;
  MeshShape mesh;
  Workload work;
  double tokens_a_second = 0, memory_gib = 0;  ///< of each chip
};
std::vector<PublishedRow> published_rows();

}  // namespace isotone::train
