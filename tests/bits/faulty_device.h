// A chip that now and then gives a wrong bit without saying so: the CPU device, one result of which is changed.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "backends/cpu/device.h"

namespace isotone::bits {

/// What a graph's run gives may be changed: asked with the graph after each run, the number of the output to change, or
/// -1. Asked on the thread that runs it.
using Fault = std::function<int(const ir::Graph& graph)>;

class FaultyDevice : public device::Device {
 public:
  /// The lowest bit of byte `at` of that output is flipped.
  FaultyDevice(Fault fault, std::size_t at) : fault_(std::move(fault)), at_(at), sound_(cpu::make_cpu_device()) {}

  [[nodiscard]] std::string_view name() const override { return sound_->name(); }
  [[nodiscard]] bool takes(const ir::Graph& g, const ir::Instruction& i) const override { return sound_->takes(g, i); }
  [[nodiscard]] device::BufferPtr upload(const void* from, std::size_t bytes) override {
    return sound_->upload(from, bytes);
  }
  [[nodiscard]] device::BufferPtr adopt(const void* from, std::size_t bytes,
                                        std::shared_ptr<const void> keep) override {
    return sound_->adopt(from, bytes, std::move(keep));
  }
  [[nodiscard]] std::unique_ptr<device::Executable> compile(const ir::Graph& graph,
                                                            const device::CompileOptions& options) override {
    return std::make_unique<Program>(*this, graph, sound_->compile(graph, options));
  }

 private:
  class Program : public device::Executable {
   public:
    Program(FaultyDevice& device, ir::Graph graph, std::unique_ptr<device::Executable> sound)
        : device_(device), graph_(std::move(graph)), sound_(std::move(sound)) {}
    std::vector<device::BufferPtr> run(std::span<const device::BufferPtr> inputs) override {
      std::vector<device::BufferPtr> out = sound_->run(inputs);
      if (const int which = device_.fault_(graph_); which >= 0) {
        device::BufferPtr& buffer = out.at(static_cast<std::size_t>(which));
        std::vector<std::byte> bytes(buffer->bytes());
        buffer->read(bytes.data());
        bytes.at(device_.at_) ^= std::byte{1};
        buffer = device_.sound_->upload(bytes.data(), bytes.size());
      }
      return out;
    }
    [[nodiscard]] device::MemoryReport memory() const override { return sound_->memory(); }

   private:
    FaultyDevice& device_;
    ir::Graph graph_;
    std::unique_ptr<device::Executable> sound_;
  };

  Fault fault_;
  std::size_t at_;
  std::shared_ptr<device::Device> sound_;
};

}  // namespace isotone::bits
