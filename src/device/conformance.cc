#include "device/conformance.h"

#include <cstring>

#include "base/error.h"
#include "base/philox.h"
#include "device/interpreter.h"
#include "passes/pipeline.h"

namespace isotone::device {

std::vector<std::vector<std::byte>> sample_contents(const ops::Sample& sample, std::uint64_t seed) {
  std::vector<std::vector<std::byte>> out;
  for (std::size_t k = 0; k < sample.inputs.size(); ++k) {
    const ops::SampleInput& in = sample.inputs[k];
    std::vector<std::byte> bytes(in.type.bytes());
    const ops::HostTensor host{&in.type, bytes.data()};
    const Philox philox(seed, "input" + std::to_string(k));
    if (is_quantised(in.type.dtype)) {
      // Random codes with small scales.
      for (std::size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = static_cast<std::byte>(philox.bits(i));
      }
      const std::size_t unit = unit_bytes(in.type.dtype);
      for (std::size_t block = 0; block * unit < bytes.size(); ++block) {
        for (std::size_t half = 0; half < (in.type.dtype == DType::q4_1 ? 2U : 1U); ++half) {
          const f16 scale(0.01F + 0.05F * philox.uniform(block * 2 + half, 1));
          std::memcpy(bytes.data() + block * unit + 2 * half, &scale, 2);
        }
      }
    } else {
      for (std::int64_t i = 0; i < in.type.elements(); ++i) {
        const double u = philox.uniform(static_cast<std::uint64_t>(i));
        const double v = in.low + (in.high - in.low) * u;
        if (is_float(in.type.dtype)) {
          host.set(i, static_cast<float>(v));
        } else {
          host.set_int(i, static_cast<std::int64_t>(std::floor(v)));
        }
      }
    }
    out.push_back(std::move(bytes));
  }
  return out;
}

ir::Graph sample_graph(const ops::OpDef& op, const ops::Sample& sample) {
  ir::Graph graph;
  std::vector<const ir::Type*> types;
  ir::Instruction code{op.name, sample.attrs, {}, {}, 0};
  for (const ops::SampleInput& in : sample.inputs) {
    types.push_back(&in.type);
    const ir::ValueId v = graph.add_value(in.type);
    graph.inputs.push_back(v);
    code.inputs.push_back(v);
  }
  for (const ir::Type& t : op.infer(ops::InTypes(types), sample.attrs)) {
    code.outputs.push_back(graph.add_value(t));
    graph.outputs.push_back(code.outputs.back());
  }
  graph.code.push_back(std::move(code));
  return graph;
}

namespace {

std::vector<std::vector<std::byte>> run_on(Device& device, const ir::Graph& graph,
                                           const std::vector<std::vector<std::byte>>& inputs, int times) {
  const auto takes = [&device](const ir::Graph& g, const ir::Instruction& i) { return device.takes(g, i); };
  const std::unique_ptr<Executable> executable = device.compile(passes::run_pipeline(graph, takes), {});
  std::vector<BufferPtr> buffers;
  for (const auto& bytes : inputs) {
    buffers.push_back(device.upload(bytes.data(), bytes.size()));
  }
  std::vector<BufferPtr> results;
  for (int i = 0; i < times; ++i) {
    results = executable->run(buffers);
  }
  std::vector<std::vector<std::byte>> out;
  for (const BufferPtr& b : results) {
    out.emplace_back(b->bytes());
    b->read(out.back().data());
  }
  return out;
}

std::string first_difference(const ir::Type& type, std::vector<std::byte>& a, std::vector<std::byte>& b) {
  const ops::HostTensor x{&type, a.data()}, y{&type, b.data()};
  const std::size_t unit = unit_bytes(type.dtype);
  std::int64_t count = 0, first = -1;
  for (std::int64_t i = 0; i < type.elements(); ++i) {
    if (std::memcmp(a.data() + static_cast<std::size_t>(i) * unit, b.data() + static_cast<std::size_t>(i) * unit,
                    unit) != 0) {
      first = first < 0 ? i : first;
      ++count;
    }
  }
  return fmt::format("{} of {} elements differ, first at {}: {:.9g} expected, {:.9g} found", count, type.elements(),
                     first, x.get(first), y.get(first));
}

}  // namespace

std::vector<ConformanceResult> check_conformance(Device& device, const std::string& filter) {
  std::vector<ConformanceResult> out;
  const std::unique_ptr<Device> oracle = make_interpreter();
  for (const ops::OpDef* op : ops::table()) {
    if (op->name.find(filter) == std::string_view::npos) {
      continue;
    }
    const std::vector<ops::Sample> samples = op->samples();
    for (std::size_t s = 0; s < samples.size(); ++s) {
      ConformanceResult r{std::string(op->name), s};
      const ir::Graph graph = sample_graph(*op, samples[s]);
      r.taken = device.takes(graph, graph.code[0]);
      const auto inputs = sample_contents(samples[s], 1000 + s);
      auto expected = run_on(*oracle, graph, inputs, 1);
      try {
        auto found = run_on(device, graph, inputs, 2);
        for (std::size_t k = 0; k < found.size() && r.failure.empty(); ++k) {
          if (expected[k] != found[k]) {
            r.failure = fmt::format(
                "output {}: {}", k,
                first_difference(graph.types[static_cast<std::size_t>(graph.outputs[k])], expected[k], found[k]));
          }
        }
      } catch (const Error& e) {
        r.refused = true;
        r.failure = e.what();
      }
      out.push_back(std::move(r));
    }
  }
  return out;
}

}  // namespace isotone::device
