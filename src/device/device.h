// The seam between the graph and whatever runs it. A backend implements Buffer, Executable and Device;
// device/null_device.h is a skeleton to copy, device/interpreter.h the oracle, device/conformance.h the suite every
// backend must pass.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "ops/transport.h"

namespace isotone::device {

/// Memory of one tensor, contiguous in row-major order, on some device.
class Buffer : public ir::Storage {
 public:
  [[nodiscard]] virtual std::size_t bytes() const = 0;
  /// Copies the contents to host memory of bytes() bytes.
  virtual void read(void* to) const = 0;
  /// The contents where the host can read them without a copy, else null.
  [[nodiscard]] virtual const void* host() const { return nullptr; }
  /// Declares that the contents, of this type, never change (weights at inference): a device may make a packed form of
  /// a matrix at once and keep it beside them.
  virtual void set_constant(const ir::Type& type) { static_cast<void>(type); }
};
using BufferPtr = std::shared_ptr<Buffer>;

/// Memory of a compiled graph, known before it runs. Bytes.
struct MemoryReport {
  std::size_t inputs = 0;
  std::size_t outputs = 0;    // that are not donated inputs
  std::size_t arena = 0;      // intermediates, reused after their last reader
  std::size_t unplanned = 0;  // what intermediates would take without reuse
  [[nodiscard]] std::size_t peak() const { return inputs + outputs + arena; }
};

struct CompileOptions {
  /// Per graph input: its memory may be overwritten by an output. Empty: none.
  std::vector<bool> donated;
  /// Carries the graph's collectives to the other workers; null: there are none.
  std::shared_ptr<ops::Transport> transport;
};

class Executable {
 public:
  virtual ~Executable() = default;
  /// Runs with one buffer per graph input, returns one per graph output. Donated inputs must not be used afterwards.
  virtual std::vector<BufferPtr> run(std::span<const BufferPtr> inputs) = 0;
  [[nodiscard]] virtual MemoryReport memory() const { return {}; }
};

class Device {
 public:
  virtual ~Device() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// Whether this instruction can be compiled as it is. What is not taken is decomposed; a primitive that is not taken
  /// is an error at compile(), by name.
  [[nodiscard]] virtual bool takes(const ir::Graph& graph, const ir::Instruction& instruction) const = 0;
  [[nodiscard]] virtual std::unique_ptr<Executable> compile(const ir::Graph& graph, const CompileOptions& options) = 0;
  /// Copies host memory to the device.
  [[nodiscard]] virtual BufferPtr upload(const void* from, std::size_t bytes) = 0;
  /// Takes over host memory kept alive by `keep` (a mapped file, say) without a copy where the device can, else
  /// uploads.
  [[nodiscard]] virtual BufferPtr adopt(const void* from, std::size_t bytes, std::shared_ptr<const void> keep) {
    static_cast<void>(keep);
    return upload(from, bytes);
  }
};

}  // namespace isotone::device
