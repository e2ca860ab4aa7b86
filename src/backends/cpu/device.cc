#include "backends/cpu/device.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>

#include "backends/cpu/planner.h"
#include "base/error.h"
#include "base/parallel.h"
#include "ops/op.h"

namespace isotone::cpu {

namespace {

/// Time by operation over the life of a device; printed at its end where ISOTONE_PROFILE asks for it.
class Profile {
 public:
  ~Profile() {
    std::vector<std::pair<double, std::string>> rows;
    double total = 0.0;
    for (const auto& [op, entry] : entries_) {
      rows.emplace_back(entry.first, op);
      total += entry.first;
    }
    std::sort(rows.rbegin(), rows.rend());
    for (const auto& [seconds, op] : rows) {
      fmt::print(stderr, "{:>8.2f} ms {:>5.1f} % {:>8} x {}\n", seconds * 1e3, 100.0 * seconds / total,
                 entries_[op].second, op);
    }
    fmt::print(stderr, "{:>8.2f} ms in all\n", total * 1e3);
  }
  void add(const std::string& op, double seconds) {
    auto& entry = entries_[op];
    entry.first += seconds;
    ++entry.second;
  }

 private:
  std::map<std::string, std::pair<double, std::int64_t>, std::less<>> entries_;
};

class CpuExecutable : public device::Executable {
 public:
  CpuExecutable(Plan plan, std::shared_ptr<BlockPool> pool, Profile* profile)
      : plan_(std::move(plan)), pool_(std::move(pool)), profile_(profile) {}

  std::vector<device::BufferPtr> run(std::span<const device::BufferPtr> inputs) override {
    require(inputs.size() == plan_.input_roots.size(), "cpu: {} inputs given, {} expected", inputs.size(),
            plan_.input_roots.size());
    std::vector<std::byte*> bases(plan_.root_count, nullptr);
    std::vector<CpuBuffer*> buffers(plan_.root_count, nullptr);
    std::vector<device::BufferPtr> owned(plan_.root_count);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto root = static_cast<std::size_t>(plan_.input_roots[i]);
      owned[root] = inputs[i];
      // Equal values may share one buffer. Held here (`inputs`, `owned`) and by its tensor alone, it may be
      // overwritten; held by anybody else, or not ours to write, a copy is.
      if (plan_.donated[i] && (inputs[i].use_count() > 3 || !static_cast<CpuBuffer*>(inputs[i].get())->writable())) {
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
    if (arena_ == nullptr && !plan_.arena_roots.empty()) {  // tensors without elements need an address too
      arena_ = std::make_unique<CpuBuffer>(pool_, std::max<std::size_t>(1, plan_.memory.arena));
    }
    for (const auto& [root, offset] : plan_.arena_roots) {
      bases[static_cast<std::size_t>(root)] = arena_->data() + offset;
    }
    const FlushSubnormals flush;
    const Frame frame(bases, buffers);
    if (profile_ == nullptr) {
      for (const NamedStep& step : plan_.steps) {
        step.run(frame);
      }
    } else {
      for (const NamedStep& step : plan_.steps) {
        const auto start = std::chrono::steady_clock::now();
        step.run(frame);
        profile_->add(step.name, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      }
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
  Profile* profile_;  // of the device, which outlives what it compiled; null: off
};

class CpuDevice : public device::Device {
 public:
  [[nodiscard]] std::string_view name() const override { return "cpu"; }

  [[nodiscard]] bool takes(const ir::Graph& graph, const ir::Instruction& i) const override {
    return ops::get(i.op).reference != nullptr || find_kernel(graph, i) != nullptr;
  }

  [[nodiscard]] std::unique_ptr<device::Executable> compile(const ir::Graph& graph,
                                                            const device::CompileOptions& options) override {
    return std::make_unique<CpuExecutable>(Planner(graph, options).plan(), pool_, profile_.get());
  }

  [[nodiscard]] device::BufferPtr upload(const void* from, std::size_t bytes) override {
    auto buffer = std::make_shared<CpuBuffer>(pool_, bytes);
    if (bytes > 0) {
      std::memcpy(buffer->data(), from, bytes);
    }
    return buffer;
  }

  [[nodiscard]] device::BufferPtr adopt(const void* from, std::size_t bytes,
                                        std::shared_ptr<const void> keep) override {
    return std::make_shared<CpuBuffer>(from, bytes, std::move(keep));
  }

 private:
  std::shared_ptr<BlockPool> pool_ = std::make_shared<BlockPool>();
  std::unique_ptr<Profile> profile_ = profile_level() > 0 ? std::make_unique<Profile>() : nullptr;
};

}  // namespace

std::shared_ptr<device::Device> make_cpu_device() {
  return std::make_shared<CpuDevice>();
}

}  // namespace isotone::cpu
