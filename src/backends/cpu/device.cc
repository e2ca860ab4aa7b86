#include "backends/cpu/device.h"

#include <cstring>

#include "backends/cpu/planner.h"
#include "base/error.h"
#include "base/parallel.h"
#include "ops/op.h"

namespace isotone::cpu {

namespace {

class CpuExecutable : public device::Executable {
 public:
  CpuExecutable(Plan plan, std::shared_ptr<BlockPool> pool) : plan_(std::move(plan)), pool_(std::move(pool)) {}

  std::vector<device::BufferPtr> run(std::span<const device::BufferPtr> inputs) override {
    require(inputs.size() == plan_.input_roots.size(), "cpu: {} inputs given, {} expected", inputs.size(), plan_.input_roots.size());
    std::vector<std::byte*> bases(plan_.root_count, nullptr);
    std::vector<CpuBuffer*> buffers(plan_.root_count, nullptr);
    std::vector<device::BufferPtr> owned(plan_.root_count);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto root = static_cast<std::size_t>(plan_.input_roots[i]);
      owned[root] = inputs[i];
      // Equal values may share one buffer. Held here (`inputs`, `owned`) and by its tensor alone, it may be overwritten;
      // held by anybody else, a copy is.
      if (plan_.donated[i] && inputs[i].use_count() > 3) {
        owned[root] = std::make_shared<CpuBuffer>(pool_, inputs[i]->bytes());
        inputs[i]->read(static_cast<CpuBuffer*>(owned[root].get())->data());
      }
      buffers[root] = static_cast<CpuBuffer*>(owned[root].get());
      bases[root] = buffers[root]->data();
    }
    for (const auto& [root, bytes] : plan_.output_roots) {
      auto buffer = std::make_shared<CpuBuffer>(pool_, bytes);
      bases[static_cast<std::size_t>(root)] = buffer->data();
      owned[static_cast<std::size_t>(root)] = std::move(buffer);
    }
    if (arena_ == nullptr && plan_.memory.arena > 0) {
      arena_ = std::make_unique<CpuBuffer>(pool_, plan_.memory.arena);
    }
    for (const auto& [root, offset] : plan_.arena_roots) {
      bases[static_cast<std::size_t>(root)] = arena_->data() + offset;
    }
    const FlushSubnormals flush;
    const Frame frame(bases, buffers);
    for (const Step& step : plan_.steps) {
      step(frame);
    }
    std::vector<device::BufferPtr> results;
    for (const int root : plan_.results) {
      results.push_back(owned[static_cast<std::size_t>(root)]);
    }
    return results;
  }

  [[nodiscard]] device::MemoryReport memory() const override { return plan_.memory; }

 private:
  Plan plan_;
  std::shared_ptr<BlockPool> pool_;
  std::unique_ptr<CpuBuffer> arena_;
};

class CpuDevice : public device::Device {
 public:
  [[nodiscard]] std::string_view name() const override { return "cpu"; }

  [[nodiscard]] bool takes(const ir::Graph& graph, const ir::Instruction& i) const override {
    return ops::get(i.op).reference != nullptr || find_kernel(graph, i) != nullptr;
  }

  [[nodiscard]] std::unique_ptr<device::Executable> compile(const ir::Graph& graph, const device::CompileOptions& options) override {
    return std::make_unique<CpuExecutable>(Planner(graph, options).plan(), pool_);
  }

  [[nodiscard]] device::BufferPtr upload(const void* from, std::size_t bytes) override {
    auto buffer = std::make_shared<CpuBuffer>(pool_, bytes);
    if (bytes > 0) {
      std::memcpy(buffer->data(), from, bytes);
    }
    return buffer;
  }

  [[nodiscard]] device::BufferPtr adopt(const void* from, std::size_t bytes, std::shared_ptr<const void> keep) override {
    return std::make_shared<CpuBuffer>(from, bytes, std::move(keep));
  }

 private:
  std::shared_ptr<BlockPool> pool_ = std::make_shared<BlockPool>();
};

}  // namespace

std::shared_ptr<device::Device> make_cpu_device() { return std::make_shared<CpuDevice>(); }

}  // namespace isotone::cpu
