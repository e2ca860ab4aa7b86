#include "passes/simplify.h"

#include <unordered_map>

namespace isotone::passes {

namespace {

std::uint64_t key_of(const ir::Instruction& i, const std::vector<ir::ValueId>& inputs) {
  std::uint64_t h =
      std::hash<std::string_view>{}(i.op) ^ (static_cast<std::uint64_t>(static_cast<std::uint32_t>(i.region)) << 17);
  for (const ir::ValueId v : inputs) {
    h = (h ^ static_cast<std::uint64_t>(static_cast<std::uint32_t>(v))) * 0x100000001b3ULL;
  }
  for (const auto& [name, attr] : i.attrs.items()) {
    if (const auto* n = std::get_if<std::int64_t>(&attr)) {
      h = (h ^ static_cast<std::uint64_t>(*n)) * 0x100000001b3ULL;
    }
  }
  return h;
}

}  // namespace

ir::Graph simplify(const ir::Graph& graph) {
  std::vector<ir::ValueId> same(graph.types.size());
  for (std::size_t i = 0; i < same.size(); ++i) {
    same[i] = static_cast<ir::ValueId>(i);
  }
  std::vector<bool> merged(graph.code.size(), false);
  std::unordered_multimap<std::uint64_t, std::size_t> seen;
  std::vector<std::vector<ir::ValueId>> inputs(graph.code.size());
  for (std::size_t n = 0; n < graph.code.size(); ++n) {
    const ir::Instruction& i = graph.code[n];
    inputs[n] = i.inputs;
    for (ir::ValueId& v : inputs[n]) {
      v = v == ir::kNone ? v : same[static_cast<std::size_t>(v)];
    }
    const std::uint64_t key = key_of(i, inputs[n]);
    const auto [begin, end] = seen.equal_range(key);
    for (auto it = begin; it != end && !merged[n]; ++it) {
      const ir::Instruction& other = graph.code[it->second];
      if (other.op == i.op && other.region == i.region && inputs[it->second] == inputs[n] && other.attrs == i.attrs) {
        for (std::size_t k = 0; k < i.outputs.size(); ++k) {
          same[static_cast<std::size_t>(i.outputs[k])] = other.outputs[k];
        }
        merged[n] = true;
      }
    }
    if (!merged[n]) {
      seen.emplace(key, n);
    }
  }
  std::vector<bool> needed(graph.types.size(), false);
  const auto need = [&](ir::ValueId v) {
    if (v != ir::kNone) {
      needed[static_cast<std::size_t>(same[static_cast<std::size_t>(v)])] = true;
    }
  };
  for (const ir::ValueId v : graph.outputs) {
    need(v);
  }
  std::vector<bool> kept(graph.code.size(), false);
  for (std::size_t n = graph.code.size(); n-- > 0;) {
    for (const ir::ValueId v : graph.code[n].outputs) {
      kept[n] = kept[n] || (!merged[n] && needed[static_cast<std::size_t>(v)]);
    }
    if (kept[n]) {
      for (const ir::ValueId v : inputs[n]) {
        need(v);
      }
    }
  }
  ir::Graph out;
  out.types = graph.types;
  out.inputs = graph.inputs;
  for (std::size_t n = 0; n < graph.code.size(); ++n) {
    if (kept[n]) {
      out.code.push_back(graph.code[n]);
      out.code.back().inputs = inputs[n];
    }
  }
  for (const ir::ValueId v : graph.outputs) {
    out.outputs.push_back(same[static_cast<std::size_t>(v)]);
  }
  return out;
}

}  // namespace isotone::passes
