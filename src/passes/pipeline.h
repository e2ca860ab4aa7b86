// The one list of graph rewrites between recording and a device, in order.
#pragma once

#include <string>
#include <vector>

#include "passes/decompose.h"

namespace isotone::passes {

struct PassReport {
  std::string name;
  double seconds = 0.0;
  std::size_t instructions = 0;  // after the pass
  bool changed = false;
};

/// Runs every pass, verifying the graph after each. Passes named in ISOTONE_SKIP_PASSES (comma-separated) are left out,
/// for finding faults; ISOTONE_PRINT_PASSES=1 prints the graph after each on stderr. `reports` (may be null) is filled
/// in.
ir::Graph run_pipeline(ir::Graph graph, const Takes& takes, std::vector<PassReport>* reports = nullptr);

}  // namespace isotone::passes
