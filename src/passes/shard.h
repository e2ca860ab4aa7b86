// Shares a graph out among the workers of a mesh: the graph of whole values becomes the graph of one worker, in which
// values are parts and collectives connect the workers. The bits of every value stay what they were: a sum is cut at
// nodes of its tree only (docs/numerics.md, section 7; docs/parallelism.md says how places are chosen).
#pragma once

#include <optional>

#include "ir/graph.h"
#include "ir/placement.h"

namespace isotone::passes {

/// One collective of a worker's graph.
struct Traffic {
  std::string op;
  int axis = 0;               // of the mesh
  std::int64_t bytes = 0;     // that this worker sends
  std::int64_t unmerged = 0;  // nodes that it hands on beyond one, because no tree node is its whole part
};

struct Sharded {
  /// The worker's graph. Its first outputs are those of the whole graph; `kept` more keep collectives alive that only
  /// others read.
  ir::Graph graph;
  std::size_t kept = 0;
  std::vector<ir::Placement> results;
  std::vector<Traffic> traffic;
};

struct ShardRequest {
  const ir::Mesh& mesh;
  int rank = 0;
  std::vector<ir::Placement> inputs;                  // by graph input
  std::vector<std::optional<ir::Placement>> results;  // by graph output; none: wherever it comes to lie
};

/// Throws Error where a placement does not fit.
Sharded shard(const ir::Graph& graph, const ShardRequest& request);

}  // namespace isotone::passes
