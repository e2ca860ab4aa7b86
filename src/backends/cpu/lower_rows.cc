// Operations over rows, reductions over one axis, embeddings.
#include <cstring>
#include <limits>

#include "backends/cpu/kernels/embedding.h"
#include "backends/cpu/kernels/norm.h"
#include "backends/cpu/kernels/reduce.h"
#include "backends/cpu/planner.h"
#include "base/error.h"

namespace isotone::cpu {

namespace {

const ir::Type& in_type(const ir::Graph& g, const ir::Instruction& i, std::size_t k) {
  return g.types[static_cast<std::size_t>(i.inputs[k])];
}

/// A shape seen as [outer, n, inner] around the axes [first, last].
struct Split {
  std::int64_t outer = 1, n = 1, inner = 1;
  Split(const ir::Shape& shape, std::int64_t first, std::int64_t last) {
    for (std::size_t i = 0; i < shape.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      (at < first ? outer : at <= last ? n : inner) *= shape[i];
    }
  }
};

bool neighbours(const ir::Ints& axes) {
  for (std::size_t i = 1; i < axes.size(); ++i) {
    if (axes[i] != axes[i - 1] + 1) {
      return false;
    }
  }
  return !axes.empty();
}

/// A sum goes over one axis here: several form nested trees.
bool takes_sum(const ir::Graph&, const ir::Instruction& i) {
  return i.attrs.ints("axes").size() == 1;
}
/// Order does not matter to a maximum: neighbouring axes count as one.
bool takes_extreme(const ir::Graph&, const ir::Instruction& i) {
  return neighbours(i.attrs.ints("axes"));
}

template <ReduceOp kOp>
Step lower_reduce(Lowering& l) {
  const Arg x = l.dense(0);
  const Arg y = l.out(0);
  const ir::Ints& axes = l.attrs().ints("axes");
  const Split s(x.type.shape, axes.front(), axes.back());
  return [=](const Frame& f) { reduce(kOp, y.dtype(), f.ptr(y), x.dtype(), f.ptr(x), s.outer, s.n, s.inner); };
}

template <auto Function>
Step lower_arg(Lowering& l) {
  const Arg x = l.dense(0);
  const Arg y = l.out(0);
  const Split s(x.type.shape, l.attrs().integer("axis"), l.attrs().integer("axis"));
  return [=](const Frame& f) { Function(x.dtype(), f.ptr<std::int32_t>(y), f.ptr(x), s.outer, s.n, s.inner); };
}

Step lower_cumsum(Lowering& l) {
  const Arg x = l.dense(0);
  const Arg y = l.out(0);
  const Split s(x.type.shape, l.attrs().integer("axis"), l.attrs().integer("axis"));
  return [=, reverse = l.attrs().flag("reverse")](const Frame& f) {
    cumsum(y.dtype(), f.ptr(y), f.ptr(x), s.outer, s.n, s.inner, reverse);
  };
}

Step lower_sort(Lowering& l) {
  const Arg x = l.dense(0);
  const Arg y = l.out(0), at = l.out(1);
  const Split s(x.type.shape, l.attrs().integer("axis"), l.attrs().integer("axis"));
  return [=, down = l.attrs().flag("descending")](const Frame& f) {
    sort(y.dtype(), f.ptr(y), f.ptr<std::int32_t>(at), f.ptr(x), s.outer, s.n, s.inner, down);
  };
}

Step lower_topk(Lowering& l) {
  const Arg x = l.dense(0);
  const Arg y = l.out(0), at = l.out(1);
  return [=](const Frame& f) {
    const std::int64_t n = x.dim(-1);
    topk(y.dtype(), f.ptr(y), f.ptr<std::int32_t>(at), f.ptr(x), x.elements() / n, n, y.dim(-1));
  };
}

struct Rows {
  std::int64_t rows, n;
  explicit Rows(const Arg& x) : rows(x.elements() / x.dim(-1)), n(x.dim(-1)) {}
};

template <auto Function>
Step lower_row(Lowering& l) {
  const Arg x = l.dense(0);
  const Arg y = l.out_over(0, 0);
  return [=, r = Rows(x)](const Frame& f) { Function(y.dtype(), f.ptr(y), f.ptr(x), r.rows, r.n); };
}

Step lower_softmax_grad(Lowering& l) {
  const Arg y = l.dense(0), dy = l.dense(1);
  const Arg dx = l.out(0);
  return [=, r = Rows(y)](const Frame& f) { softmax_grad(dx.dtype(), f.ptr(dx), f.ptr(y), f.ptr(dy), r.rows, r.n); };
}

/// The kernels want the weight in the dtype of the rows; another one is decomposed.
template <std::size_t kCount>
bool same_dtypes(const ir::Graph& g, const ir::Instruction& i) {
  for (std::size_t k = 1; k < kCount; ++k) {
    if (in_type(g, i, k).dtype != in_type(g, i, 0).dtype) {
      return false;
    }
  }
  return true;
}

Step lower_rms_norm(Lowering& l) {
  const Arg x = l.dense(0), w = l.dense(1);
  const Arg y = l.out(0);
  return [=, r = Rows(x), eps = static_cast<float>(l.attrs().real("eps"))](const Frame& f) {
    rms_norm(x.dtype(), f.ptr(y), f.ptr(x), f.ptr(w), eps, r.rows, r.n);
  };
}

Step lower_rms_norm_grad(Lowering& l) {
  const Arg x = l.dense(0), w = l.dense(1), dy = l.dense(2);
  const Arg dx = l.out(0), h = l.out(1);
  return [=, r = Rows(x), eps = static_cast<float>(l.attrs().real("eps"))](const Frame& f) {
    rms_norm_grad(x.dtype(), f.ptr(dx), f.ptr(h), f.ptr(x), f.ptr(w), f.ptr(dy), eps, r.rows, r.n);
  };
}

Step lower_layer_norm(Lowering& l) {
  const Arg x = l.dense(0), w = l.dense(1), b = l.dense(2);
  const Arg y = l.out(0);
  return [=, r = Rows(x), eps = static_cast<float>(l.attrs().real("eps"))](const Frame& f) {
    layer_norm(x.dtype(), f.ptr(y), f.ptr(x), f.ptr(w), f.ptr(b), eps, r.rows, r.n);
  };
}

void check_targets(const std::int32_t* targets, std::int64_t rows, std::int64_t n) {
  for (std::int64_t i = 0; i < rows; ++i) {
    require(targets[i] < n, "cross_entropy: target {} of row {} is outside {} classes", targets[i], i, n);
  }
}

Step lower_cross_entropy(Lowering& l) {
  const Arg x = l.dense(0), t = l.dense(1);
  const Arg loss = l.out(0), lse = l.out(1);
  return [=, r = Rows(x)](const Frame& f) {
    check_targets(f.ptr<std::int32_t>(t), r.rows, r.n);
    cross_entropy(x.dtype(), f.ptr<float>(loss), f.ptr<float>(lse), f.ptr(x), f.ptr<std::int32_t>(t), r.rows, r.n);
  };
}

Step lower_cross_entropy_grad(Lowering& l) {
  const Arg x = l.dense(0), lse = l.dense(1), t = l.dense(2), d = l.dense(3);
  const Arg y = l.out_over(0, 0);
  return [=, r = Rows(x)](const Frame& f) {
    check_targets(f.ptr<std::int32_t>(t), r.rows, r.n);
    cross_entropy_grad(x.dtype(), f.ptr(y), f.ptr(x), f.ptr<float>(lse), f.ptr<std::int32_t>(t), f.ptr<float>(d),
                       r.rows, r.n);
  };
}

bool takes_ids(const ir::Graph& g, const ir::Instruction& i) {
  return in_type(g, i, i.op == "embedding" ? 1 : 0).dtype == DType::i32;
}

std::span<const std::int32_t> checked_ids(const Frame& f, const Arg& ids, std::int64_t rows) {
  const std::span<const std::int32_t> all(f.ptr<std::int32_t>(ids), static_cast<std::size_t>(ids.elements()));
  const std::int64_t bad = first_invalid_id(all, rows);
  require(bad < 0, "embedding: id {} at position {} is outside a table of {} rows",
          bad < 0 ? 0 : all[static_cast<std::size_t>(bad)], bad, rows);
  return all;
}

Step lower_embedding(Lowering& l) {
  const Arg table = l.dense(0), ids = l.dense(1);
  const Arg y = l.out(0);
  return [=](const Frame& f) {
    embedding(y.dtype(), f.ptr(y), table.dtype(), f.ptr(table), checked_ids(f, ids, table.dim(0)), table.dim(1));
  };
}

Step lower_embedding_grad(Lowering& l) {
  const Arg ids = l.dense(0), dy = l.dense(1);
  const Arg y = l.out(0);
  return [=](const Frame& f) {
    embedding_grad(dy.dtype(), f.ptr<float>(y), f.ptr(dy), checked_ids(f, ids, y.dim(0)), ids.dim(0), y.dim(0),
                   y.dim(1));
  };
}

bool takes_row(const ir::Graph& g, const ir::Instruction& i) {
  return in_type(g, i, 0).elements() > 0;
}

constexpr Kernel kReductions[] = {
    {"sum", takes_sum, lower_reduce<ReduceOp::sum>},
    {"max", takes_extreme, lower_reduce<ReduceOp::max>},
    {"min", takes_extreme, lower_reduce<ReduceOp::min>},
    {"mean", takes_sum, lower_reduce<ReduceOp::mean>},
    {"var", takes_sum, lower_reduce<ReduceOp::var>},
    {"logsumexp", takes_sum, lower_reduce<ReduceOp::logsumexp>},
    {"argmax", takes_all, lower_arg<argmax>},
    {"argmin", takes_all, lower_arg<argmin>},
    {"cumsum", takes_all, lower_cumsum},
    {"sort", takes_all, lower_sort},
    {"topk", takes_row, lower_topk},
};

constexpr Kernel kRows[] = {
    {"softmax", takes_row, lower_row<softmax>},
    {"log_softmax", takes_row, lower_row<log_softmax>},
    {"softmax_grad", takes_row, lower_softmax_grad},
    {"rms_norm", same_dtypes<2>, lower_rms_norm},
    {"rms_norm_grad", same_dtypes<2>, lower_rms_norm_grad},
    {"layer_norm", same_dtypes<3>, lower_layer_norm},
    {"cross_entropy", takes_row, lower_cross_entropy},
    {"cross_entropy_grad", takes_row, lower_cross_entropy_grad},
    {"embedding", takes_ids, lower_embedding},
    {"embedding_grad", takes_ids, lower_embedding_grad},
};

}  // namespace

std::span<const Kernel> reduction_kernels() {
  return kReductions;
}
std::span<const Kernel> row_kernels() {
  return kRows;
}

}  // namespace isotone::cpu
