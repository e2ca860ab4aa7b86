#include "device/interpreter.h"

#include "base/error.h"
#include "base/parallel.h"
#include "device/host_buffer.h"
#include "ops/op.h"

namespace isotone::device {

namespace {

class Interpreted : public Executable {
 public:
  Interpreted(ir::Graph graph, std::shared_ptr<ops::Transport> transport)
      : graph_(std::move(graph)), transport_(std::move(transport)) {}

  std::vector<BufferPtr> run(std::span<const BufferPtr> inputs) override {
    require(inputs.size() == graph_.inputs.size(), "interpreter: {} inputs given, {} expected", inputs.size(),
            graph_.inputs.size());
    const FlushSubnormals flush;
    std::vector<std::shared_ptr<HostBuffer>> values(graph_.types.size());
    const auto make = [&](ir::ValueId v) {
      const auto i = static_cast<std::size_t>(v);
      return values[i] = std::make_shared<HostBuffer>(graph_.types[i].bytes());
    };
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto buffer = make(graph_.inputs[i]);
      require(inputs[i]->bytes() == buffer->bytes(), "interpreter: input {} has {} bytes, {} expected", i,
              inputs[i]->bytes(), buffer->bytes());
      inputs[i]->read(buffer->data());
    }
    const std::vector<int> last = ir::last_uses(graph_);
    for (std::size_t n = 0; n < graph_.code.size(); ++n) {
      const ir::Instruction& code = graph_.code[n];
      const auto tensor = [&](ir::ValueId v) {
        const auto i = static_cast<std::size_t>(v);
        return v == ir::kNone ? ops::HostTensor{} : ops::HostTensor{&graph_.types[i], values[i]->data()};
      };
      std::vector<ops::HostTensor> in, out;
      for (const ir::ValueId v : code.inputs) {
        in.push_back(tensor(v));
      }
      for (const ir::ValueId v : code.outputs) {
        make(v);
        out.push_back(tensor(v));
      }
      const ops::OpDef& def = ops::get(code.op);
      require(def.reference != nullptr, "interpreter: {} is a composite and should have been decomposed", code.op);
      def.reference({in, out, code.attrs, transport_.get()});
      for (const ir::ValueId v : code.inputs) {
        if (v != ir::kNone && last[static_cast<std::size_t>(v)] == static_cast<int>(n)) {
          values[static_cast<std::size_t>(v)] = nullptr;
        }
      }
    }
    std::vector<BufferPtr> results;
    for (const ir::ValueId v : graph_.outputs) {
      results.push_back(values[static_cast<std::size_t>(v)]);
    }
    return results;
  }

  [[nodiscard]] MemoryReport memory() const override {
    MemoryReport report;
    for (const ir::ValueId v : graph_.inputs) {
      report.inputs += graph_.types[static_cast<std::size_t>(v)].bytes();
    }
    for (const ir::ValueId v : graph_.outputs) {
      report.outputs += graph_.types[static_cast<std::size_t>(v)].bytes();
    }
    return report;
  }

 private:
  ir::Graph graph_;
  std::shared_ptr<ops::Transport> transport_;
};

class Interpreter : public Device {
 public:
  [[nodiscard]] std::string_view name() const override { return "interpreter"; }
  [[nodiscard]] bool takes(const ir::Graph&, const ir::Instruction& i) const override {
    return ops::get(i.op).reference != nullptr;
  }
  [[nodiscard]] std::unique_ptr<Executable> compile(const ir::Graph& graph, const CompileOptions& options) override {
    return std::make_unique<Interpreted>(graph, options.transport);
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

std::unique_ptr<Device> make_interpreter() {
  return std::make_unique<Interpreter>();
}

}  // namespace isotone::device
