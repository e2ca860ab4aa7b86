// Elementwise operations: inputs of any strides, results contiguous, in place where the input dies.
#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels/elementwise.h"
#include "backends/cpu/kernels/elementwise_fused.h"
#include "backends/cpu/planner.h"
#include "base/exact_sum.h"
#include "base/kernel_log.h"

namespace isotone::cpu {

namespace {

/// Strides of x over the axes of `shape`, 0 where it is broadcast.
std::vector<std::int64_t> broadcast_strides(const Arg& x, const ir::Shape& shape) {
  std::vector<std::int64_t> out(shape.size(), 0);
  const std::size_t extra = shape.size() - x.type.shape.size();
  for (std::size_t i = 0; i < x.type.shape.size(); ++i) {
    out[extra + i] = x.type.shape[i] == 1 ? 0 : x.strides[i];
  }
  return out;
}

const ir::Type& out_type(const ir::Graph& g, const ir::Instruction& i) {
  return g.types[static_cast<std::size_t>(i.outputs[0])];
}
const ir::Type& in_type(const ir::Graph& g, const ir::Instruction& i, std::size_t k) {
  return g.types[static_cast<std::size_t>(i.inputs[k])];
}

bool few_dims(const ir::Graph& g, const ir::Instruction& i) {
  return out_type(g, i).shape.size() <= kMaxDims;
}

constexpr std::string_view kUnaryNames[] = {"neg",     "abs",  "exp",      "log",       "sin",  "cos",  "tanh", "erf",
                                            "sigmoid", "silu", "gelu_erf", "gelu_tanh", "relu", "sqrt", "rsqrt"};

Step lower_unary(Lowering& l) {
  const auto name = std::find(std::begin(kUnaryNames), std::end(kUnaryNames), l.instruction().op);
  const auto op = static_cast<UnaryOp>(name - std::begin(kUnaryNames));
  const Arg x = l.in(0);
  const Arg y = l.out_over(0, 0);
  return [=](const Frame& f) { unary(op, y.dtype(), f.ptr(y), {f.ptr(x), x.strides}, y.type.shape); };
}

constexpr std::string_view kBinaryNames[] = {"add", "sub", "mul", "div", "pow", "maximum", "minimum"};

Step lower_binary(Lowering& l) {
  const auto name = std::find(std::begin(kBinaryNames), std::end(kBinaryNames), l.instruction().op);
  const auto op = static_cast<BinaryOp>(name - std::begin(kBinaryNames));
  const Arg a = l.in(0), b = l.in(1);
  const Arg y = l.out_over(0, l.may_overwrite(0, 0) ? 0 : 1);
  return [=, sa = broadcast_strides(a, y.type.shape), sb = broadcast_strides(b, y.type.shape)](const Frame& f) {
    binary(op, y.dtype(), f.ptr(y), {f.ptr(a), sa}, {f.ptr(b), sb}, y.type.shape);
  };
}

template <auto Function, class Op, Op kOp>
Step lower_predicate(Lowering& l) {
  const Arg a = l.in(0), b = l.in(1);
  const Arg y = l.out(0);
  return [=, sa = broadcast_strides(a, y.type.shape), sb = broadcast_strides(b, y.type.shape)](const Frame& f) {
    if constexpr (std::is_same_v<Op, CompareOp>) {
      Function(kOp, a.dtype(), f.ptr<std::uint8_t>(y), {f.ptr(a), sa}, {f.ptr(b), sb}, y.type.shape);
    } else {
      Function(kOp, f.ptr<std::uint8_t>(y), {f.ptr(a), sa}, {f.ptr(b), sb}, y.type.shape);
    }
  };
}

Step lower_not(Lowering& l) {
  const Arg x = l.in(0);
  const Arg y = l.out(0);
  return [=](const Frame& f) { logical_not(f.ptr<std::uint8_t>(y), {f.ptr(x), x.strides}, y.type.shape); };
}

Step lower_where(Lowering& l) {
  const Arg c = l.in(0), a = l.in(1), b = l.in(2);
  const Arg y = l.out(0);
  return [=, sc = broadcast_strides(c, y.type.shape), sa = broadcast_strides(a, y.type.shape),
          sb = broadcast_strides(b, y.type.shape)](const Frame& f) {
    where(y.dtype(), f.ptr(y), {f.ptr(c), sc}, {f.ptr(a), sa}, {f.ptr(b), sb}, y.type.shape);
  };
}

Step lower_clamp(Lowering& l) {
  const Arg x = l.in(0);
  const Arg y = l.out_over(0, 0);
  const auto low = static_cast<float>(l.attrs().real("low")), high = static_cast<float>(l.attrs().real("high"));
  return [=](const Frame& f) { clamp(y.dtype(), f.ptr(y), {f.ptr(x), x.strides}, low, high, y.type.shape); };
}

bool takes_cast(const ir::Graph& g, const ir::Instruction& i) {
  return few_dims(g, i) && !is_quantised(in_type(g, i, 0).dtype);
}

Step lower_cast(Lowering& l) {
  const Arg x = l.in(0);
  const Arg y = l.out(0);
  return [=](const Frame& f) { cast(y.dtype(), f.ptr(y), x.dtype(), {f.ptr(x), x.strides}, y.type.shape); };
}

bool takes_fan_in(const ir::Graph& g, const ir::Instruction& i) {
  for (std::size_t k = 0; k < i.inputs.size(); ++k) {
    if (in_type(g, i, k).dtype != out_type(g, i).dtype) {
      return false;
    }
  }
  return true;
}

Step lower_fan_in(Lowering& l) {
  std::vector<Arg> xs;
  for (int k = 0; k < l.inputs(); ++k) {
    xs.push_back(l.dense(k));
  }
  const Arg y = l.out_over(0, 0);
  return [=](const Frame& f) {
    std::vector<const void*> inputs;
    for (const Arg& x : xs) {
      inputs.push_back(f.ptr(x));
    }
    fan_in(y.dtype(), f.ptr(y), inputs, y.elements());
  };
}

Step lower_exact_sum(Lowering& l) {
  std::vector<Arg> xs;
  for (int k = 0; k < l.inputs(); ++k) {
    xs.push_back(l.dense(k));
  }
  const Arg y = l.out(0);
  return [xs, y, squares = l.attrs().flag("squares")](const Frame& f) {
    log_kernel("exact_sum");
    ExactSum total;
    for (const Arg& x : xs) {
      const std::span<const float> all(f.ptr<const float>(x), static_cast<std::size_t>(x.elements()));
      squares ? total.add_squares(all) : total.add(all);
    }
    *f.ptr<float>(y) = total.round_to_float();
  };
}

Step lower_adamw(Lowering& l) {
  Arg from[4];
  for (int k = 0; k < 4; ++k) {
    from[k] = l.dense(k);
  }
  const Arg scalars = l.dense(4);
  const Arg p = l.out_over(0, 0), m = l.out_over(1, 1), v = l.out_over(2, 2);
  return [=, p0 = from[0], m0 = from[1], v0 = from[2], g = from[3]](const Frame& f) {
    // The kernel works in place; memory that was not donated is copied first.
    for (const auto& [to, source] : {std::pair{p, p0}, std::pair{m, m0}, std::pair{v, v0}}) {
      if (f.ptr(to) != f.ptr(source)) {
        std::memcpy(f.ptr(to), f.ptr(source), to.type.bytes());
      }
    }
    AdamwStep s{};
    std::memcpy(&s, f.ptr(scalars), sizeof s);
    adamw(f.ptr<float>(p), f.ptr<float>(m), f.ptr<float>(v), f.ptr<const float>(g), s, p.elements());
  };
}

bool takes_float_last(const ir::Graph& g, const ir::Instruction& i) {
  return is_float(in_type(g, i, 0).dtype);
}

Step lower_swiglu(Lowering& l) {
  const Arg gate = l.dense(0), up = l.dense(1);
  const Arg y = l.out_over(0, 0);
  return [=](const Frame& f) {
    const std::int64_t n = y.dim(-1), rows = n == 0 ? 0 : y.elements() / n;
    swiglu(y.dtype(), f.ptr(y), f.ptr(gate), f.ptr(up), rows, n, n, n, n);
  };
}

Step lower_swiglu_grad(Lowering& l) {
  const Arg gate = l.dense(0), up = l.dense(1), dy = l.dense(2);
  const Arg dgate = l.out_over(0, 0), dup = l.out_over(1, 1);
  return [=](const Frame& f) {
    const std::int64_t n = dup.dim(-1), rows = n == 0 ? 0 : dup.elements() / n;
    swiglu_grad(dup.dtype(), f.ptr(dgate), f.ptr(dup), f.ptr(gate), f.ptr(up), f.ptr(dy), rows, n, n, n, n, n);
  };
}

bool takes_rank1(const ir::Graph& g, const ir::Instruction& i) {
  return takes_float_last(g, i) && !in_type(g, i, 0).shape.empty();
}

Step lower_rope(Lowering& l) {
  const Arg x = l.dense(0), c = l.dense(1), s = l.dense(2);
  const Arg y = l.out_over(0, 0);
  return [=](const Frame& f) {
    const std::int64_t d = y.dim(-1), heads = y.dim(-2), row = d * heads;
    rope(y.dtype(), f.ptr(y), f.ptr(x), f.ptr<const float>(c), f.ptr<const float>(s), row == 0 ? 0 : y.elements() / row,
         heads, d, row, row);
  };
}

constexpr Kernel kKernels[] = {
    {"neg", few_dims, lower_unary},
    {"abs", few_dims, lower_unary},
    {"exp", few_dims, lower_unary},
    {"log", few_dims, lower_unary},
    {"sin", few_dims, lower_unary},
    {"cos", few_dims, lower_unary},
    {"tanh", few_dims, lower_unary},
    {"erf", few_dims, lower_unary},
    {"sigmoid", few_dims, lower_unary},
    {"silu", few_dims, lower_unary},
    {"gelu_erf", few_dims, lower_unary},
    {"gelu_tanh", few_dims, lower_unary},
    {"relu", few_dims, lower_unary},
    {"sqrt", few_dims, lower_unary},
    {"rsqrt", few_dims, lower_unary},
    {"add", few_dims, lower_binary},
    {"sub", few_dims, lower_binary},
    {"mul", few_dims, lower_binary},
    {"div", few_dims, lower_binary},
    {"pow", few_dims, lower_binary},
    {"maximum", few_dims, lower_binary},
    {"minimum", few_dims, lower_binary},
    {"equal", few_dims, lower_predicate<compare, CompareOp, CompareOp::equal>},
    {"less", few_dims, lower_predicate<compare, CompareOp, CompareOp::less>},
    {"less_equal", few_dims, lower_predicate<compare, CompareOp, CompareOp::less_equal>},
    {"logical_and", few_dims, lower_predicate<logical, LogicalOp, LogicalOp::logical_and>},
    {"logical_or", few_dims, lower_predicate<logical, LogicalOp, LogicalOp::logical_or>},
    {"logical_not", few_dims, lower_not},
    {"where", few_dims, lower_where},
    {"clamp", few_dims, lower_clamp},
    {"cast", takes_cast, lower_cast},
    {"fan_in", takes_fan_in, lower_fan_in},
    {"exact_sum", takes_all, lower_exact_sum},
    {"adamw", takes_all, lower_adamw},
    {"swiglu", takes_rank1, lower_swiglu},
    {"swiglu_grad", takes_rank1, lower_swiglu_grad},
    {"rope", takes_float_last, lower_rope},
};

}  // namespace

std::span<const Kernel> elementwise_kernels() {
  return kKernels;
}

}  // namespace isotone::cpu
