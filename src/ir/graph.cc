#include "ir/graph.h"

#include <algorithm>
#include <bit>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"

namespace isotone::ir {

namespace {

/// All nodes to run for `outputs`, ascending by id. Stops at nodes with memory and at `stops`.
std::vector<Node*> needed_nodes(const Values& outputs, const std::unordered_set<const Node*>& stops) {
  std::vector<Node*> found;
  std::unordered_set<const Node*> seen;
  std::vector<Node*> stack;
  const auto visit = [&](const Value& v) {
    if (v && seen.insert(v.node().get()).second) {
      stack.push_back(v.node().get());
    }
  };
  for (const Value& v : outputs) {
    visit(v);
  }
  while (!stack.empty()) {
    Node* node = stack.back();
    stack.pop_back();
    found.push_back(node);
    if (node->storage.empty() && !stops.contains(node)) {
      for (const Value& v : node->inputs) {
        visit(v);
      }
    }
  }
  std::sort(found.begin(), found.end(), [](const Node* a, const Node* b) { return a->id < b->id; });
  return found;
}

}  // namespace

Flattened flatten(const Values& outputs, const Values& stops) {
  Flattened result;
  Graph& graph = result.graph;
  std::unordered_set<const Node*> stop_nodes;
  std::unordered_map<const Node*, std::vector<ValueId>> ids;
  for (const Value& v : stops) {
    require(v.node()->types.size() == 1, "flatten: a stop must be a node of one output");
    stop_nodes.insert(v.node().get());
    const ValueId id = graph.add_value(v.type());
    ids[v.node().get()] = {id};
    graph.inputs.push_back(id);
    result.leaves.push_back(v);
  }
  for (Node* node : needed_nodes(outputs, stop_nodes)) {
    if (ids.contains(node)) {
      continue;
    }
    std::vector<ValueId>& mine = ids[node];
    for (const Type& t : node->types) {
      mine.push_back(graph.add_value(t));
    }
    if (!node->storage.empty()) {
      // A computed node may have several outputs: each is an input of its own.
      for (std::size_t i = 0; i < mine.size(); ++i) {
        graph.inputs.push_back(mine[i]);
        result.leaves.emplace_back(node->shared_from_this(), static_cast<int>(i));
      }
      continue;
    }
    require(node->op != kLeaf,
            "a placeholder of a traced function has no value to read here; return it from the function instead");
    Instruction instruction{node->op, node->attrs, {}, mine, node->region};
    instruction.inputs.reserve(node->inputs.size());
    for (const Value& v : node->inputs) {
      instruction.inputs.push_back(v ? ids.at(v.node().get())[static_cast<std::size_t>(v.index())] : kNone);
    }
    graph.code.push_back(std::move(instruction));
  }
  for (const Value& v : outputs) {
    graph.outputs.push_back(ids.at(v.node().get())[static_cast<std::size_t>(v.index())]);
  }
  return result;
}

std::uint64_t hash(const Graph& graph) {
  std::uint64_t h = 0x9e3779b97f4a7c15ULL;
  const auto mix = [&h](std::uint64_t x) {
    h ^= x + 0x9e3779b97f4a7c15ULL + (h << 6) + (h >> 2);
    h *= 0xff51afd7ed558ccdULL;
    h ^= h >> 32;
  };
  const auto mix_text = [&](std::string_view s) {
    mix(s.size());
    for (const char c : s) {
      mix(static_cast<unsigned char>(c));
    }
  };
  const auto mix_all = [&](const auto& list) {
    mix(list.size());
    for (const auto x : list) {
      mix(static_cast<std::uint64_t>(x));
    }
  };
  for (const Type& t : graph.types) {
    mix(static_cast<std::uint64_t>(t.dtype));
    mix_all(t.shape);
  }
  mix_all(graph.inputs);
  for (const Instruction& i : graph.code) {
    mix_text(i.op);
    for (const auto& [name, attr] : i.attrs.items()) {
      mix_text(name);
      mix(attr.index());
      if (const auto* n = std::get_if<std::int64_t>(&attr)) {
        mix(static_cast<std::uint64_t>(*n));
      } else if (const auto* d = std::get_if<double>(&attr)) {
        mix(std::bit_cast<std::uint64_t>(*d));
      } else if (const auto* s = std::get_if<std::string>(&attr)) {
        mix_text(*s);
      } else {
        mix_all(std::get<Ints>(attr));
      }
    }
    mix_all(i.inputs);
    mix_all(i.outputs);
    mix(static_cast<std::uint64_t>(i.region));
  }
  mix_all(graph.outputs);
  return h;
}

void verify(const Graph& graph, const std::function<void(const Graph&, const Instruction&)>& check_types) {
  const int count = static_cast<int>(graph.types.size());
  std::vector<bool> made(graph.types.size(), false);
  const auto make = [&](ValueId v, std::string_view who) {
    require(v >= 0 && v < count, "graph: {} makes value %{}, but there are only {} values", who, v, count);
    require(!made[static_cast<std::size_t>(v)], "graph: value %{} is made twice, the second time by {}", v, who);
    made[static_cast<std::size_t>(v)] = true;
  };
  const auto use = [&](ValueId v, std::string_view who) {
    require(v >= 0 && v < count && made[static_cast<std::size_t>(v)], "graph: {} reads value %{} before it is made",
            who, v);
  };
  for (const ValueId v : graph.inputs) {
    make(v, "the input list");
  }
  for (const Instruction& i : graph.code) {
    for (const ValueId v : i.inputs) {
      if (v != kNone) {
        use(v, i.op);
      }
    }
    for (const ValueId v : i.outputs) {
      make(v, i.op);
    }
    if (check_types) {
      check_types(graph, i);
    }
  }
  for (const ValueId v : graph.outputs) {
    use(v, "the output list");
  }
}

std::vector<int> last_uses(const Graph& graph) {
  std::vector<int> last(graph.types.size(), -1);
  for (std::size_t i = 0; i < graph.code.size(); ++i) {
    for (const ValueId v : graph.code[i].inputs) {
      if (v != kNone) {
        last[static_cast<std::size_t>(v)] = static_cast<int>(i);
      }
    }
  }
  for (const ValueId v : graph.outputs) {
    last[static_cast<std::size_t>(v)] = static_cast<int>(graph.code.size());
  }
  return last;
}

}  // namespace isotone::ir
