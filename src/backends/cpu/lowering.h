// How one instruction becomes a step of a CPU plan: where its tensors lie, and the closure that calls the kernel.
#pragma once

#include <functional>
#include <vector>

#include "backends/cpu/buffer.h"
#include "ir/graph.h"
#include "ops/transport.h"

namespace isotone::cpu {

/// A tensor of a plan: a view of one root (a block of memory whose address is known when the plan runs).
struct Arg {
  int root = -1;
  std::int64_t byte_offset = 0;
  ir::Type type;
  std::vector<std::int64_t> strides;  // in elements

  explicit operator bool() const { return root >= 0; }
  [[nodiscard]] bool contiguous() const;
  [[nodiscard]] std::int64_t elements() const { return type.elements(); }
  [[nodiscard]] DType dtype() const { return type.dtype; }
  [[nodiscard]] std::int64_t dim(int axis) const {
    return type.shape[static_cast<std::size_t>(axis < 0 ? axis + type.rank() : axis)];
  }
};

/// Addresses of the roots while a plan runs.
class Frame {
 public:
  Frame(std::vector<std::byte*>& bases, std::vector<CpuBuffer*>& buffers) : bases_(bases), buffers_(buffers) {}
  template <class T = void>
  [[nodiscard]] T* ptr(const Arg& a) const {
    return a ? reinterpret_cast<T*>(bases_[static_cast<std::size_t>(a.root)] + a.byte_offset) : nullptr;
  }
  /// The buffer behind a root that is a graph input, else null.
  [[nodiscard]] CpuBuffer* buffer(const Arg& a) const { return buffers_[static_cast<std::size_t>(a.root)]; }

 private:
  std::vector<std::byte*>& bases_;
  std::vector<CpuBuffer*>& buffers_;
};

using Step = std::function<void(const Frame&)>;

class Planner;

/// What a lowering may ask for its instruction.
class Lowering {
 public:
  Lowering(Planner& planner, const ir::Instruction& instruction, int index)
      : planner_(planner), i_(instruction), index_(index) {}

  [[nodiscard]] const ir::Instruction& instruction() const { return i_; }
  [[nodiscard]] const ir::Attrs& attrs() const { return i_.attrs; }
  [[nodiscard]] int inputs() const { return static_cast<int>(i_.inputs.size()); }
  [[nodiscard]] bool has(int k) const { return k < inputs() && i_.inputs[static_cast<std::size_t>(k)] != ir::kNone; }
  /// Input k as it lies (any strides); none where absent.
  Arg in(int k);
  /// Input k, contiguous: copied first where it is not.
  Arg dense(int k);
  /// Output k, contiguous, in fresh memory.
  Arg out(int k);
  /// Output k in the memory of input j if nobody reads that afterwards (and types allow), else fresh. `j` must be a
  /// tensor that the kernel may overwrite element by element.
  Arg out_over(int k, int j);
  /// Whether out_over(k, j) would take input j's memory.
  [[nodiscard]] bool may_overwrite(int k, int j);
  /// Declares output k to be a view of input j's memory: no step is needed.
  void alias(int k, int j, std::int64_t element_offset, std::vector<std::int64_t> strides);
  /// Memory for this step only.
  Arg scratch(DType dtype, std::int64_t elements);
  /// What carries collectives; null where there is no other worker.
  [[nodiscard]] std::shared_ptr<ops::Transport> transport() const;

 private:
  Planner& planner_;
  const ir::Instruction& i_;
  int index_;
};

/// One kernel of the backend: whether it takes an instruction, and the step that runs it (empty: nothing to do).
struct Kernel {
  std::string_view op;
  bool (*takes)(const ir::Graph& graph, const ir::Instruction& instruction);
  Step (*lower)(Lowering& l);
};

/// Kernels of each family; together the backend's table.
std::span<const Kernel> view_kernels();
std::span<const Kernel> elementwise_kernels();
std::span<const Kernel> reduction_kernels();
std::span<const Kernel> row_kernels();
std::span<const Kernel> contraction_kernels();
std::span<const Kernel> indexed_kernels();
std::span<const Kernel> attention_kernels();
/// The kernel for this instruction, or null: the scalar reference runs it.
const Kernel* find_kernel(const ir::Graph& graph, const ir::Instruction& instruction);
/// The step that runs a primitive by its reference.
Step lower_reference(Lowering& l);

inline bool takes_all(const ir::Graph&, const ir::Instruction&) {
  return true;
}

}  // namespace isotone::cpu
