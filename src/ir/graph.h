// The flat graph that passes rewrite and devices compile: numbered values, instructions in execution order.
// It says nothing of what an operation means (ops/) or of where it runs (device/).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/value.h"

namespace isotone::ir {

/// Index of a value in Graph::types; kNone stands for an absent optional input.
using ValueId = int;
inline constexpr ValueId kNone = -1;

struct Instruction {
  std::string_view op;
  Attrs attrs;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  /// Clones made by recompute carry their region, so that no pass merges them with the originals.
  int region = 0;
};

struct Graph {
  std::vector<Type> types;        // by ValueId
  std::vector<ValueId> inputs;    // given at run time, in this order
  std::vector<Instruction> code;  // in execution order
  std::vector<ValueId> outputs;   // returned, in this order; may repeat or name inputs

  ValueId add_value(Type type) {
    types.push_back(std::move(type));
    return static_cast<ValueId>(types.size()) - 1;
  }
};

/// A flat graph with the leaves it reads, in the order of Graph::inputs.
struct Flattened {
  Graph graph;
  Values leaves;
};

/// Flattens what `outputs` need. Values that have memory, and `stops`, become inputs (the stops first and in order,
/// used or not).
Flattened flatten(const Values& outputs, const Values& stops = {});

/// One instruction a line: `%3, %4 = topk(%1) {k = 5} : f32[2, 5], i32[2, 5]`. parse() reads it back.
std::string print(const Graph& graph);
/// `intern` gives the static name of an operation or throws. Errors name the line.
Graph parse(std::string_view text, const std::function<std::string_view(std::string_view)>& intern);

/// 64 bits that depend on everything in the graph; equal graphs have equal hashes.
std::uint64_t hash(const Graph& graph);

/// Throws where the graph is not legal: ids out of range, a value used before it is made or made twice, an output never
/// made. `check_types(instruction)` may check what only the operation knows.
void verify(const Graph& graph, const std::function<void(const Graph&, const Instruction&)>& check_types = {});

/// For each value the index of its last reading instruction; code.size() for outputs; -1 where nobody reads it.
std::vector<int> last_uses(const Graph& graph);

}  // namespace isotone::ir
