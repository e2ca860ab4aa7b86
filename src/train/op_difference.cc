#include "train/op_difference.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "base/error.h"
#include "base/ulps.h"
#include "ops/op.h"
#include "passes/pipeline.h"

namespace isotone::train {
namespace {

using device::BufferPtr;

/// One instruction as a graph of its own; `reads` are the values it is given, each once.
ir::Graph alone(const ir::Graph& graph, const ir::Instruction& instruction, std::vector<ir::ValueId>& reads) {
  ir::Graph out;
  ir::Instruction copy = instruction;
  for (ir::ValueId& v : copy.inputs) {
    if (v == ir::kNone) {
      continue;
    }
    auto at = std::find(reads.begin(), reads.end(), v);
    if (at == reads.end()) {
      out.inputs.push_back(out.add_value(graph.types[static_cast<std::size_t>(v)]));
      reads.push_back(v);
      at = reads.end() - 1;
    }
    v = static_cast<ir::ValueId>(at - reads.begin());
  }
  for (ir::ValueId& v : copy.outputs) {
    v = out.add_value(graph.types[static_cast<std::size_t>(v)]);
  }
  out.outputs = copy.outputs;
  out.code.push_back(std::move(copy));
  return out;
}

/// The instruction with its types, on one line.
std::string text_of(const ir::Graph& graph, const ir::Instruction& instruction) {
  std::vector<ir::ValueId> reads;
  std::string text = ir::print(alone(graph, instruction, reads));
  while (!text.empty() && text.back() == '\n') {
    text.pop_back();
  }
  for (std::size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at)) {
    text.replace(at, 1, "; ");
  }
  return text;
}

/// Runs a side's instructions in order and keeps what is still needed.
class Walker {
 public:
  explicit Walker(const OpSide& side)
      : side_(side), values_(side.graph.types.size()), last_(ir::last_uses(side.graph)) {
    for (std::size_t i = 0; i < side.inputs.size(); ++i) {
      const ir::ValueId v = side.graph.inputs[i];
      values_[static_cast<std::size_t>(v)] = side.inputs[i];
    }
  }

  /// The results of instruction `i`.
  std::vector<BufferPtr> run(std::size_t i) {
    const ir::Instruction& instruction = side_.graph.code[i];
    std::vector<ir::ValueId> reads;
    ir::Graph single = alone(side_.graph, instruction, reads);
    const auto takes = [this](const ir::Graph& g, const ir::Instruction& x) { return side_.device.takes(g, x); };
    const ir::Graph lowered = passes::run_pipeline(std::move(single), takes);
    std::vector<BufferPtr> inputs;
    inputs.reserve(reads.size());
    for (const ir::ValueId v : reads) {
      inputs.push_back(values_[static_cast<std::size_t>(v)]);
    }
    std::vector<BufferPtr> results = side_.device.compile(lowered, {})->run(inputs);
    for (std::size_t k = 0; k < results.size(); ++k) {
      const auto v = static_cast<std::size_t>(instruction.outputs[k]);
      values_[v] = last_[v] >= 0 ? results[k] : nullptr;
    }
    for (std::size_t v = 0; v < values_.size(); ++v) {
      if (last_[v] == static_cast<int>(i)) {
        values_[v].reset();
      }
    }
    return results;
  }

 private:
  const OpSide& side_;
  std::vector<BufferPtr> values_;
  std::vector<int> last_;
};

std::vector<std::byte> bytes_of(const device::Buffer& buffer, const ir::Type& type) {
  std::vector<std::byte> raw(std::max(buffer.bytes(), type.bytes()));
  buffer.read(raw.data());
  raw.resize(type.bytes());
  return raw;
}

/// Whether they differ; says where.
bool differ(const ir::Type& type, const device::Buffer& a, const device::Buffer& b, OpDifference& d) {
  std::vector<std::byte> x = bytes_of(a, type), y = bytes_of(b, type);
  if (x == y) {
    return false;
  }
  const std::size_t unit = unit_bytes(type.dtype);
  d.elements = type.elements();
  for (std::size_t at = 0; at < x.size(); at += unit) {
    if (std::memcmp(x.data() + at, y.data() + at, unit) == 0) {
      continue;
    }
    ++d.wrong;
    if (d.element < 0) {
      d.element = static_cast<std::int64_t>(at / unit);
      d.a = ops::HostTensor{&type, x.data()}.get(d.element);
      d.b = ops::HostTensor{&type, y.data()}.get(d.element);
      d.ulps = is_float(type.dtype) ? ulps_apart(type.dtype, x.data() + at, y.data() + at) : 0;
    }
  }
  return true;
}

/// By value: the graph's input that it is, unchanged but for its dtype and shape.
std::vector<std::string> origins(const ir::Graph& graph, const std::vector<std::string>& names) {
  constexpr std::array<std::string_view, 4> kSame{"cast", "reshape", "transpose", "broadcast_to"};
  std::vector<std::string> out(graph.types.size());
  for (std::size_t i = 0; i < graph.inputs.size() && i < names.size(); ++i) {
    out[static_cast<std::size_t>(graph.inputs[i])] = names[i];
  }
  for (const ir::Instruction& x : graph.code) {
    if (std::find(kSame.begin(), kSame.end(), x.op) != kSame.end()) {
      out[static_cast<std::size_t>(x.outputs[0])] = out[static_cast<std::size_t>(x.inputs[0])];
    }
  }
  return out;
}

bool alike(const ir::Graph& a, const ir::Instruction& x, const ir::Graph& b, const ir::Instruction& y) {
  const auto types = [](const ir::Graph& g, const std::vector<ir::ValueId>& ids) {
    std::vector<ir::Type> out;
    out.reserve(ids.size());
    for (const ir::ValueId v : ids) {
      out.push_back(v == ir::kNone ? ir::Type{} : g.types[static_cast<std::size_t>(v)]);
    }
    return out;
  };
  return x.op == y.op && x.attrs == y.attrs && types(a, x.inputs) == types(b, y.inputs) &&
         types(a, x.outputs) == types(b, y.outputs);
}

std::optional<OpDifference> input_difference(const OpSide& a, const OpSide& b, const std::vector<std::string>& names) {
  OpDifference d;
  d.kind = OpDifference::Kind::input;
  d.of = std::max(a.inputs.size(), b.inputs.size());
  for (; d.at < std::min(a.inputs.size(), b.inputs.size()); ++d.at) {
    const ir::Type& x = a.graph.types[static_cast<std::size_t>(a.graph.inputs[d.at])];
    const ir::Type& y = b.graph.types[static_cast<std::size_t>(b.graph.inputs[d.at])];
    d.op = d.at < names.size() ? names[d.at] : fmt::format("constant {}", d.at - names.size());
    d.text_a = ir::to_string(x);
    d.text_b = ir::to_string(y);
    if (x != y || differ(x, *a.inputs[d.at], *b.inputs[d.at], d)) {
      return d;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<OpDifference> first_op_difference(const OpSide& a, const OpSide& b, const std::vector<std::string>& names,
                                                const std::function<void(std::size_t, std::size_t)>& progress) {
  if (const auto d = input_difference(a, b, names)) {
    return d;
  }
  const std::vector<std::string> from = origins(a.graph, names);
  Walker x(a), y(b);
  const std::size_t n = std::max(a.graph.code.size(), b.graph.code.size());
  for (std::size_t i = 0; i < n; ++i) {
    OpDifference d;
    d.at = i;
    d.of = n;
    const bool both = i < a.graph.code.size() && i < b.graph.code.size();
    if (!both || !alike(a.graph, a.graph.code[i], b.graph, b.graph.code[i])) {
      d.kind = OpDifference::Kind::operation;
      d.text_a = i < a.graph.code.size() ? text_of(a.graph, a.graph.code[i]) : "nothing";
      d.text_b = i < b.graph.code.size() ? text_of(b.graph, b.graph.code[i]) : "nothing";
      d.op = both ? a.graph.code[i].op : "";
      return d;
    }
    const ir::Instruction& instruction = a.graph.code[i];
    const std::vector<BufferPtr> p = x.run(i), q = y.run(i);
    for (std::size_t k = 0; k < p.size(); ++k) {
      const ir::Type& type = a.graph.types[static_cast<std::size_t>(instruction.outputs[k])];
      if (differ(type, *p[k], *q[k], d)) {
        d.op = instruction.op;
        d.text_a = d.text_b = text_of(a.graph, instruction);
        std::set<std::string> reads;
        for (const ir::ValueId v : instruction.inputs) {
          if (v != ir::kNone && !from[static_cast<std::size_t>(v)].empty()) {
            reads.insert(from[static_cast<std::size_t>(v)]);
          }
        }
        d.reads.assign(reads.begin(), reads.end());
        return d;
      }
    }
    if (progress) {
      progress(i + 1, n);
    }
  }
  return std::nullopt;
}

}  // namespace isotone::train
