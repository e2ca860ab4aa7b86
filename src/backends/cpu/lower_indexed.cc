// Operations over experts and by index: where rows lie, and memory for the rows gathered by expert.
#include "backends/cpu/kernels/experts.h"
#include "backends/cpu/kernels/indexed.h"
#include "backends/cpu/planner.h"

namespace isotone::cpu {

namespace {

bool takes_experts(const ir::Graph& g, const ir::Instruction& i) {
  return g.types[static_cast<std::size_t>(i.inputs[2])].dtype == DType::i32;
}

/// Input k [G, T, K, width], any strides but the last one: a broadcast over the choices costs no copy.
Arg row_input(Lowering& l, int k) {
  const Arg x = l.in(k);
  return x.strides[3] == 1 || x.dim(3) == 1 ? x : l.dense(k);
}

/// Where each row begins, in elements.
std::vector<std::int64_t> row_offsets(const Arg& x) {
  std::vector<std::int64_t> out;
  for (std::int64_t g = 0; g < x.dim(0); ++g) {
    for (std::int64_t t = 0; t < x.dim(1); ++t) {
      for (std::int64_t k = 0; k < x.dim(2); ++k) {
        out.push_back(g * x.strides[0] + t * x.strides[1] + k * x.strides[2]);
      }
    }
  }
  return out;
}

std::span<const std::int32_t> ids_of(const Frame& f, const Arg& ids) {
  return {f.ptr<std::int32_t>(ids), static_cast<std::size_t>(ids.elements())};
}

Step lower_expert_linear(Lowering& l) {
  const Arg x = row_input(l, 0), w = l.in(1), ids = l.dense(2);
  const Arg y = l.out(0);
  const Arg gathered = l.scratch(x.dtype(), ids.elements() * x.dim(3));
  const Arg made = l.scratch(x.dtype(), y.elements());
  return [=, offsets = row_offsets(x)](const Frame& f) {
    const RowLists lists = rows_by_expert("expert_linear", ids_of(f, ids), w.dim(0), 1);
    ExpertWeights weights{f.ptr(w), w.dim(0), w.dim(1), w.dim(2), w.strides[0], w.strides[1], w.strides[2]};
    CpuBuffer* buffer = f.buffer(w);
    if (buffer != nullptr && buffer->constant() && w.contiguous() && buffer->bytes() == w.type.bytes() &&
        w.dim(1) > 0) {
      weights.packed = [&](std::int64_t expert) -> const PackedWeight& {
        return buffer->packed(w.dtype(), w.dim(1), w.dim(2), expert);
      };
    }
    expert_linear({f.ptr(x), offsets, x.dim(3), x.dtype()}, weights, lists, f.ptr<std::byte>(y),
                  f.ptr<std::byte>(gathered), f.ptr<std::byte>(made));
  };
}

Step lower_expert_linear_grad(Lowering& l) {
  const Arg x = row_input(l, 0), dy = row_input(l, 1), ids = l.dense(2);
  const Arg dw = l.out(0);
  const std::int64_t grains = ids.dim(0);
  const Arg x_rows = l.scratch(x.dtype(), ids.elements() * x.dim(3));
  const Arg dy_rows = l.scratch(dy.dtype(), ids.elements() * dy.dim(3));
  const Arg nodes = l.scratch(DType::f32, dw.dim(1) * dw.dim(2) * tree_levels(grains));
  return [=, x_at = row_offsets(x), dy_at = row_offsets(dy)](const Frame& f) {
    const RowLists lists = rows_by_expert("expert_linear_grad", ids_of(f, ids), dw.dim(0), grains);
    expert_linear_grad({f.ptr(x), x_at, x.dim(3), x.dtype()}, {f.ptr(dy), dy_at, dy.dim(3), dy.dtype()}, lists,
                       dw.dim(0), grains, f.ptr<float>(dw), f.ptr<std::byte>(x_rows), f.ptr<std::byte>(dy_rows),
                       f.ptr<float>(nodes));
  };
}

bool takes_gather(const ir::Graph& g, const ir::Instruction& i) {
  return g.types[static_cast<std::size_t>(i.inputs[1])].dtype == DType::i32;
}

/// The kernel adds along the last axis in f32.
bool takes_scatter_add(const ir::Graph& g, const ir::Instruction& i) {
  const ir::Type& x = g.types[static_cast<std::size_t>(i.inputs[0])];
  return x.dtype == DType::f32 && takes_gather(g, i) && i.attrs.integer("axis") == x.rank() - 1;
}

IndexedAxis axis_of(const ir::Type& x, const ir::Type& indices, std::int64_t axis) {
  const auto a = static_cast<std::size_t>(axis);
  IndexedAxis s{1, x.shape[a], indices.shape[a], 1};
  for (std::size_t d = 0; d < x.shape.size(); ++d) {
    (d < a ? s.outer : s.inner) *= d == a ? 1 : x.shape[d];
  }
  return s;
}

Step lower_gather(Lowering& l) {
  const Arg x = l.dense(0), indices = l.dense(1);
  const Arg y = l.out(0);
  return [=, s = axis_of(x.type, indices.type, l.attrs().integer("axis"))](const Frame& f) {
    gather(s, unit_bytes(x.dtype()), f.ptr(y), f.ptr(x), ids_of(f, indices));
  };
}

Step lower_scatter_add(Lowering& l) {
  const Arg x = l.dense(0), indices = l.dense(1), updates = l.dense(2);
  const Arg y = l.out(0);
  return [=, s = axis_of(x.type, indices.type, l.attrs().integer("axis"))](const Frame& f) {
    scatter_add(s, f.ptr<float>(y), f.ptr<float>(x), ids_of(f, indices), f.ptr<float>(updates));
  };
}

constexpr Kernel kKernels[] = {{"expert_linear", takes_experts, lower_expert_linear},
                               {"expert_linear_grad", takes_experts, lower_expert_linear_grad},
                               {"gather", takes_gather, lower_gather},
                               {"scatter_add", takes_scatter_add, lower_scatter_add}};

}  // namespace

std::span<const Kernel> indexed_kernels() {
  return kKernels;
}

}  // namespace isotone::cpu
