#include "passes/decompose.h"

#include "base/error.h"
#include "ops/op.h"

namespace isotone::passes {

namespace {

using ir::Graph;
using ir::Instruction;
using ir::ValueId;

class Rewriter {
 public:
  Rewriter(const Takes& takes, Graph& out) : takes_(takes), out_(out) {}

  /// Emits the code of `from`; `map` takes its value ids to ids of the result and is filled in.
  void run(const Graph& from, std::vector<ValueId>& map) {
    for (const Instruction& i : from.code) {
      const ops::OpDef& def = ops::get(i.op);
      if (def.decompose == nullptr || takes_(from, i)) {
        emit(from, i, map);
      } else {
        expand(from, i, def, map);
      }
    }
  }

 private:
  void emit(const Graph& from, const Instruction& i, std::vector<ValueId>& map) {
    Instruction copy{i.op, i.attrs, {}, {}, i.region != 0 ? i.region : region_};
    for (const ValueId v : i.inputs) {
      copy.inputs.push_back(v == ir::kNone ? v : map[static_cast<std::size_t>(v)]);
    }
    for (const ValueId v : i.outputs) {
      map[static_cast<std::size_t>(v)] = out_.add_value(from.types[static_cast<std::size_t>(v)]);
      copy.outputs.push_back(map[static_cast<std::size_t>(v)]);
    }
    out_.code.push_back(std::move(copy));
  }

  void expand(const Graph& from, const Instruction& i, const ops::OpDef& def, std::vector<ValueId>& map) {
    ir::Values inputs, stops;
    std::vector<ValueId> given;
    for (const ValueId v : i.inputs) {
      if (v == ir::kNone) {
        inputs.emplace_back();
        continue;
      }
      inputs.push_back(ir::leaf(from.types[static_cast<std::size_t>(v)], nullptr));
      stops.push_back(inputs.back());
      given.push_back(map[static_cast<std::size_t>(v)]);
    }
    const ir::Values outputs = def.decompose(inputs, i.attrs);
    require(outputs.size() == i.outputs.size(), "{}: its decomposition gives {} values instead of {}", i.op,
            outputs.size(), i.outputs.size());
    const ir::Flattened part = ir::flatten(outputs, stops);
    std::vector<ValueId> inner(part.graph.types.size(), ir::kNone);
    for (std::size_t k = 0; k < given.size(); ++k) {
      inner[static_cast<std::size_t>(part.graph.inputs[k])] = given[k];
    }
    const int saved = region_;
    region_ = i.region != 0 ? i.region : region_;
    run(part.graph, inner);
    region_ = saved;
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      require(outputs[k].type() == from.types[static_cast<std::size_t>(i.outputs[k])],
              "{}: output {} is {}, but its decomposition gives {}", i.op, k,
              ir::to_string(from.types[static_cast<std::size_t>(i.outputs[k])]), ir::to_string(outputs[k].type()));
      map[static_cast<std::size_t>(i.outputs[k])] = inner[static_cast<std::size_t>(part.graph.outputs[k])];
    }
  }

  const Takes& takes_;
  Graph& out_;
  int region_ = 0;
};

}  // namespace

ir::Graph decompose(const ir::Graph& graph, const Takes& takes) {
  Graph out;
  std::vector<ValueId> map(graph.types.size(), ir::kNone);
  for (const ValueId v : graph.inputs) {
    map[static_cast<std::size_t>(v)] = out.add_value(graph.types[static_cast<std::size_t>(v)]);
    out.inputs.push_back(map[static_cast<std::size_t>(v)]);
  }
  Rewriter(takes, out).run(graph, map);
  for (const ValueId v : graph.outputs) {
    out.outputs.push_back(map[static_cast<std::size_t>(v)]);
  }
  return out;
}

}  // namespace isotone::passes
