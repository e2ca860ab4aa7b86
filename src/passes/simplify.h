// Drops what nobody reads and computes equal things once. Never changes a value, so never a bit.
#pragma once

#include "ir/graph.h"

namespace isotone::passes {

/// Removes instructions without readers and merges instructions equal in operation, attributes, inputs and recompute
/// region.
ir::Graph simplify(const ir::Graph& graph);

}  // namespace isotone::passes
