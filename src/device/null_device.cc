#include "device/null_device.h"

#include <algorithm>

#include "base/error.h"
#include "device/host_buffer.h"

namespace isotone::device {

namespace {

class NullExecutable : public Executable {
 public:
  explicit NullExecutable(ir::Graph graph) : graph_(std::move(graph)) {}
  std::vector<BufferPtr> run(std::span<const BufferPtr> inputs) override {
    require(inputs.size() == graph_.inputs.size(), "null: {} inputs given, {} expected", inputs.size(),
            graph_.inputs.size());
    std::vector<BufferPtr> out;
    for (const ir::ValueId v : graph_.outputs) {
      const auto at = std::find(graph_.inputs.begin(), graph_.inputs.end(), v);
      out.push_back(inputs[static_cast<std::size_t>(at - graph_.inputs.begin())]);
    }
    return out;
  }

 private:
  ir::Graph graph_;
};

class NullDevice : public Device {
 public:
  [[nodiscard]] std::string_view name() const override { return "null"; }
  [[nodiscard]] bool takes(const ir::Graph&, const ir::Instruction&) const override { return false; }
  [[nodiscard]] std::unique_ptr<Executable> compile(const ir::Graph& graph, const CompileOptions&) override {
    require(graph.code.empty(), "null: does not take operation '{}'; run it on another device",
            graph.code.empty() ? "" : graph.code[0].op);
    return std::make_unique<NullExecutable>(graph);
  }
  [[nodiscard]] BufferPtr upload(const void* from, std::size_t bytes) override {
    auto buffer = std::make_shared<HostBuffer>(bytes);
    if (bytes > 0) {
      std::memcpy(buffer->data(), from, bytes);
    }
    return buffer;
  }
};

}  // namespace

std::unique_ptr<Device> make_null_device() {
  return std::make_unique<NullDevice>();
}

}  // namespace isotone::device
