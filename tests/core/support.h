// What the tests of this folder share: random contents, graphs run on a device, and the two devices compared.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/device.h"
#include "base/error_for_tests.h"
#include "device/interpreter.h"
#include "passes/pipeline.h"
#include "tensor/transforms.h"

namespace isotone {

using Bytes = std::vector<std::byte>;

/// A device that is the default one while the object lives.
class Using {
 public:
  explicit Using(std::shared_ptr<device::Device> device) { set_default_device(std::move(device)); }
  ~Using() { set_default_device(nullptr); }
  Using(const Using&) = delete;
  Using& operator=(const Using&) = delete;
};

inline std::shared_ptr<device::Device> interpreter() {
  return device::make_interpreter();
}

/// Compiles a graph as eval() does.
inline std::unique_ptr<device::Executable> compile_graph(device::Device& device, const ir::Graph& graph,
                                                         const device::CompileOptions& options = {}) {
  return device.compile(
      passes::run_pipeline(graph, [&](const ir::Graph& g, const ir::Instruction& i) { return device.takes(g, i); }),
      options);
}

inline std::vector<device::BufferPtr> upload_all(device::Device& device, const std::vector<Bytes>& inputs) {
  std::vector<device::BufferPtr> buffers;
  for (const Bytes& b : inputs) {
    buffers.push_back(device.upload(b.data(), b.size()));
  }
  return buffers;
}

inline std::vector<Bytes> read_all(const std::vector<device::BufferPtr>& buffers) {
  std::vector<Bytes> out;
  for (const auto& b : buffers) {
    out.emplace_back(b->bytes());
    b->read(out.back().data());
  }
  return out;
}

inline std::vector<Bytes> run_graph(device::Device& device, const ir::Graph& graph, const std::vector<Bytes>& inputs) {
  return read_all(compile_graph(device, graph)->run(upload_all(device, inputs)));
}

/// Where two values of `type` first differ in a bit; empty where nowhere.
inline std::string difference(const ir::Type& type, Bytes a, Bytes b) {
  if (a == b) {
    return "";
  }
  const ops::HostTensor x{&type, a.data()}, y{&type, b.data()};
  const std::size_t unit = unit_bytes(type.dtype);
  for (std::size_t i = 0; i < a.size() / unit && a.size() == b.size(); ++i) {
    if (!std::equal(a.begin() + static_cast<std::ptrdiff_t>(i * unit),
                    a.begin() + static_cast<std::ptrdiff_t>((i + 1) * unit),
                    b.begin() + static_cast<std::ptrdiff_t>(i * unit))) {
      return fmt::format("{}: element {} is {:.9g} and {:.9g}", ir::to_string(type), i,
                         x.get(static_cast<std::int64_t>(i)), y.get(static_cast<std::int64_t>(i)));
    }
  }
  return "sizes differ";
}

}  // namespace isotone
