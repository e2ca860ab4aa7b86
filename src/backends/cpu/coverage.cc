#include "backends/cpu/coverage.h"

#include <algorithm>

#include "backends/cpu/device.h"
#include "backends/cpu/lowering.h"
#include "device/conformance.h"
#include "ops/op.h"

namespace isotone::cpu {
namespace {

void count(OpCoverage& row, const ir::Graph& graph, const ir::Instruction& i) {
  if (find_kernel(graph, i) != nullptr) {
    ++row.kernel;
  } else if (ops::get(i.op).reference != nullptr) {
    ++row.reference;
  } else {
    ++row.decomposed;
  }
}

class WatchedDevice : public device::Device {
 public:
  explicit WatchedDevice(std::vector<OpCoverage>& found) : found_(found) {}
  [[nodiscard]] std::string_view name() const override { return inner_->name(); }
  [[nodiscard]] bool takes(const ir::Graph& graph, const ir::Instruction& i) const override {
    return inner_->takes(graph, i);
  }
  [[nodiscard]] std::unique_ptr<device::Executable> compile(const ir::Graph& graph,
                                                            const device::CompileOptions& options) override {
    for (const ir::Instruction& i : graph.code) {
      auto row = std::lower_bound(found_.begin(), found_.end(), i.op,
                                  [](const OpCoverage& a, std::string_view name) { return a.name < name; });
      if (row == found_.end() || row->name != i.op) {
        row = found_.insert(row, OpCoverage{std::string(i.op)});
      }
      count(*row, graph, i);
    }
    return inner_->compile(graph, options);
  }
  [[nodiscard]] device::BufferPtr upload(const void* from, std::size_t bytes) override {
    return inner_->upload(from, bytes);
  }
  [[nodiscard]] device::BufferPtr adopt(const void* from, std::size_t bytes,
                                        std::shared_ptr<const void> keep) override {
    return inner_->adopt(from, bytes, std::move(keep));
  }

 private:
  std::shared_ptr<device::Device> inner_ = make_cpu_device();
  std::vector<OpCoverage>& found_;
};

}  // namespace

std::vector<OpCoverage> coverage_of_samples() {
  std::vector<OpCoverage> rows;
  for (const ops::OpDef* op : ops::table()) {
    OpCoverage row{std::string(op->name)};
    for (const ops::Sample& sample : op->samples()) {
      const ir::Graph graph = device::sample_graph(*op, sample);
      count(row, graph, graph.code[0]);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::shared_ptr<device::Device> make_watched_device(std::vector<OpCoverage>& found) {
  return std::make_shared<WatchedDevice>(found);
}

}  // namespace isotone::cpu
