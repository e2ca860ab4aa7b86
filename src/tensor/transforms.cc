#include "tensor/transforms.h"

#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "passes/differentiate.h"
#include "passes/pipeline.h"
#include "tensor/trace.h"

namespace isotone {

namespace {

/// How many functions are being differentiated on this thread, one inside another.
class TraceDepth {
 public:
  TraceDepth() { ++depth(); }
  ~TraceDepth() { --depth(); }
  TraceDepth(const TraceDepth&) = delete;
  TraceDepth& operator=(const TraceDepth&) = delete;
  [[nodiscard]] static bool outermost() { return depth() == 1; }

 private:
  static int& depth() {
    thread_local int count = 0;
    return count;
  }
};

/// Takes back the marks of the outermost trace, which began at `begin`: nodes that depend on no placeholder of
/// compile() may forget their inputs again once they are computed.
void end_trace(const Values& begin, const Values& values, const Values& gradients) {
  std::unordered_set<ir::Node*> seen;
  std::vector<ir::Node*> nodes, stack;
  const auto visit = [&](const Value& v) {
    if (v && v.node()->traced && seen.insert(v.node().get()).second) {
      nodes.push_back(v.node().get());
      stack.push_back(v.node().get());
    }
  };
  for (const Values* list : {&begin, &values, &gradients}) {
    for (const Value& v : *list) {
      visit(v);
    }
  }
  while (!stack.empty()) {
    const ir::Node* node = stack.back();
    stack.pop_back();
    for (const Value& v : node->inputs) {
      visit(v);
    }
  }
  std::sort(nodes.begin(), nodes.end(), [](const ir::Node* a, const ir::Node* b) { return a->id < b->id; });
  for (ir::Node* node : nodes) {
    if (node->op != ir::kLeaf) {
      node->traced =
          std::any_of(node->inputs.begin(), node->inputs.end(), [](const Value& v) { return v && v.node()->traced; });
    }
  }
  for (ir::Node* node : nodes) {
    if (!node->traced && !node->storage.empty() && node->op != ir::kLeaf) {
      node->inputs.clear();
    }
  }
}

}  // namespace

std::function<ValueAndGrad(const Tensors&)> value_and_grad(Function f) {
  return [f = std::move(f)](const Tensors& arguments) {
    const TraceDepth depth;
    // Each argument is seen through a node of its own, so that gradients end there and not in what made the argument.
    Tensors inside;
    Values wrt;
    for (const Tensor& t : arguments) {
      if (is_float(t.dtype())) {
        const Value v = ops::apply1("reshape", {t}, {{"shape", t.shape()}});
        v.node()->traced = true;  // what f reads on the way must keep its inputs until the gradient is recorded
        inside.emplace_back(v);
        wrt.push_back(v);
      } else {
        inside.push_back(t);
      }
    }
    ValueAndGrad result;
    result.values = f(inside);
    require(!result.values.empty() && result.values[0].rank() == 0 && is_float(result.values[0].dtype()),
            "grad: the function's first result must be a float scalar, got {}",
            result.values.empty() ? "nothing" : ir::to_string(result.values[0].type()));
    const Value& y = result.values[0];
    const Values gradients = passes::differentiate({y}, {ops::full({}, 1.0, y.dtype())}, wrt);
    std::size_t next = 0;
    if (TraceDepth::outermost()) {
      end_trace(wrt, Values(result.values.begin(), result.values.end()), gradients);
    }
    for (const Tensor& t : arguments) {
      if (!is_float(t.dtype())) {
        result.gradients.emplace_back();
        continue;
      }
      const Value g = gradients[next++];
      result.gradients.emplace_back(g ? g : ops::broadcast_to(ops::full({}, 0.0, t.dtype()), t.shape()));
    }
    return result;
  };
}

Function grad(Function f) {
  return
      [with_value = value_and_grad(std::move(f))](const Tensors& arguments) { return with_value(arguments).gradients; };
}

Function recompute(Function f) {
  return [f = std::move(f)](const Tensors& arguments) {
    const ir::RegionScope region;
    return f(arguments);
  };
}

Traced trace(const Function& f, const std::vector<Type>& types) {
  Tensors placeholders;
  Values stops, outputs;
  for (const Type& t : types) {
    stops.push_back(ir::leaf(t, nullptr, true));
    placeholders.emplace_back(stops.back());
  }
  for (const Tensor& t : f(placeholders)) {
    outputs.push_back(t);
  }
  ir::Flattened flat = ir::flatten(outputs, stops);
  Traced traced{std::move(flat.graph), {}};
  for (std::size_t i = types.size(); i < flat.leaves.size(); ++i) {
    traced.captured.push_back(std::static_pointer_cast<device::Buffer>(flat.leaves[i].storage()));
  }
  return traced;
}

std::unique_ptr<device::Executable> compile_traced(ir::Graph graph, const CompileSettings& settings,
                                                   std::shared_ptr<ops::Transport> transport) {
  device::Device& device = default_device();
  const auto takes = [&device](const ir::Graph& g, const ir::Instruction& i) { return device.takes(g, i); };
  graph = passes::run_pipeline(std::move(graph), takes);
  device::CompileOptions options;
  options.transport = std::move(transport);
  options.donated.assign(graph.inputs.size(), false);
  for (const std::size_t i : settings.donate) {
    require(i < graph.inputs.size(), "compile: argument {} is to be donated, but there are {}", i, graph.inputs.size());
    options.donated[i] = true;
  }
  return device.compile(graph, options);
}

std::vector<device::BufferPtr> buffers_of(const Tensors& arguments, const std::vector<device::BufferPtr>& captured) {
  eval(arguments);
  std::vector<device::BufferPtr> inputs;
  for (const Tensor& t : arguments) {
    inputs.push_back(std::static_pointer_cast<device::Buffer>(t.storage()));
  }
  inputs.insert(inputs.end(), captured.begin(), captured.end());
  return inputs;
}

struct Compiled::Entry {
  std::vector<Type> types;
  std::vector<device::BufferPtr> captured;
  std::vector<Type> output_types;
  std::unique_ptr<device::Executable> executable;
};

Compiled::Compiled(Function f, CompileSettings settings) : f_(std::move(f)), settings_(std::move(settings)) {}
Compiled compile(Function f, CompileSettings settings) {
  return {std::move(f), std::move(settings)};
}

Compiled::Entry& Compiled::entry(const std::vector<Type>& types) {
  for (const auto& e : entries_) {
    if (e->types == types) {
      return *e;
    }
  }
  for (const std::size_t i : settings_.donate) {
    require(i < types.size(), "compile: argument {} is to be donated, but there are {}", i, types.size());
  }
  Traced traced = trace(f_, types);
  auto made = std::make_shared<Entry>();
  made->types = types;
  made->captured = std::move(traced.captured);
  for (const ir::ValueId v : traced.graph.outputs) {
    made->output_types.push_back(traced.graph.types[static_cast<std::size_t>(v)]);
  }
  made->executable = compile_traced(std::move(traced.graph), settings_);
  entries_.push_back(std::move(made));
  return *entries_.back();
}

Tensors Compiled::operator()(const Tensors& arguments) {
  std::vector<Type> types;
  for (const Tensor& t : arguments) {
    types.push_back(t.type());
  }
  Entry& e = entry(types);
  const std::vector<device::BufferPtr> outputs = e.executable->run(buffers_of(arguments, e.captured));
  Tensors results;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    results.emplace_back(ir::leaf(e.output_types[i], outputs[i]));
  }
  return results;
}

device::MemoryReport Compiled::memory(const std::vector<Type>& types) {
  return entry(types).executable->memory();
}

}  // namespace isotone
