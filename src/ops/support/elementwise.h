// What elementwise operations share: type rules, broadcasting, references and samples.
#pragma once

#include <cmath>

#include "base/error.h"
#include "base/fmath.h"
#include "ops/functions.h"
#include "ops/support/shard.h"

namespace isotone::ops {

/// An operation of one float tensor to one of the same type. Op gives `f(float)` and `grad(x, y, g)`.
template <class Op>
struct Unary : Elementwise {
  static Types infer(const InTypes& in, const Attrs&) {
    require(in.size() == 1, "{}: takes one tensor, got {}", Op::name, in.size());
    require_float(Op::name, in[0]);
    return {in[0]};
  }
  static Values vjp(const VjpCall& c) { return {Op::grad(c.inputs[0], c.outputs[0], c.cotangents[0])}; }
  static void reference(const ReferenceCall& c) {
    for (std::int64_t i = 0; i < c.outputs[0].elements(); ++i) {
      c.outputs[0].set(i, Op::f(c.inputs[0].get(i)));
    }
  }
  static std::vector<Sample> samples() { return unary_samples(-2.0, 2.0); }

  static std::vector<Sample> unary_samples(double low, double high) {
    std::vector<Sample> out;
    for (const DType t : {DType::f32, DType::bf16, DType::f16}) {
      for (const Shape& s : {Shape{}, Shape{1}, Shape{37}, Shape{3, 70}, Shape{2, 0, 3}}) {
        out.push_back({{{{t, s}, low, high}}, {}, t == DType::f32 && s != Shape{2, 0, 3}});
      }
    }
    return out;
  }
};

/// A composite of one float tensor: Op gives `f32(x)`, written in operations on an f32 tensor, and `grad`.
template <class Op>
struct UnaryComposite : Elementwise {
  static Types infer(const InTypes& in, const Attrs& a) { return Unary<Op>::infer(in, a); }
  static Values decompose(const Values& in, const Attrs&) {
    return {cast(Op::f32(cast(in[0], DType::f32)), in[0].dtype())};
  }
  static Values vjp(const VjpCall& c) {
    const Value g = cast(c.cotangents[0], DType::f32);
    return {cast(Op::grad(cast(c.inputs[0], DType::f32), g), c.inputs[0].dtype())};
  }
  static std::vector<Sample> samples() { return Unary<Op>::unary_samples(-3.0, 3.0); }
};

/// Walks the elements of a broadcast result and gives the offsets of both operands.
template <class Visit>
void for_each_broadcast(const Shape& out, const Shape& a, const Shape& b, const Visit& visit) {
  const std::size_t rank = out.size();
  std::vector<std::int64_t> sa(rank, 0), sb(rank, 0), index(rank, 0);
  const auto fill = [&](const Shape& shape, std::vector<std::int64_t>& strides) {
    const auto own = ir::contiguous_strides(shape);
    for (std::size_t i = 0; i < shape.size(); ++i) {
      strides[rank - shape.size() + i] = shape[i] == 1 ? 0 : own[i];
    }
  };
  fill(a, sa);
  fill(b, sb);
  const std::int64_t n = Type{DType::f32, out}.elements();
  std::int64_t ia = 0, ib = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    visit(i, ia, ib);
    for (std::size_t d = rank; d-- > 0;) {
      ia += sa[d];
      ib += sb[d];
      if (++index[d] < out[d]) {
        break;
      }
      ia -= sa[d] * out[d];
      ib -= sb[d] * out[d];
      index[d] = 0;
    }
  }
}

inline std::vector<Sample> binary_samples(double low, double high, bool gradient = true) {
  std::vector<Sample> out;
  for (const DType t : {DType::f32, DType::bf16, DType::f16}) {
    const bool g = gradient && t == DType::f32;
    out.push_back({{{{t, {3, 70}}, low, high}, {{t, {3, 70}}, low, high}}, {}, g});
    out.push_back({{{{t, {2, 3, 37}}, low, high}, {{t, {37}}, low, high}}, {}, g});
    out.push_back({{{{t, {3, 1}}, low, high}, {{t, {1, 5}}, low, high}}, {}, g});
    out.push_back({{{{t, {}}, low, high}, {{t, {4, 5}}, low, high}}, {}, g});
  }
  return out;
}

/// An arithmetic operation of two tensors of one float dtype, broadcast. Op gives `f(float, float)` and
/// `grads(a, b, y, g)`, whose results are summed back to the operands' shapes here.
template <class Op>
struct Binary : Elementwise {
  static Types infer(const InTypes& in, const Attrs&) {
    require(in.size() == 2, "{}: takes two tensors, got {}", Op::name, in.size());
    require_same_dtype(Op::name, in, 0, 1);
    require_float(Op::name, in[0]);
    return {{in[0].dtype, ir::broadcast_shapes(in[0].shape, in[1].shape, Op::name)}};
  }
  static Values vjp(const VjpCall& c) {
    Values g = Op::grads(c.inputs[0], c.inputs[1], c.outputs[0], c.cotangents[0]);
    for (std::size_t i = 0; i < 2; ++i) {
      g[i] = c.wanted[i] && g[i] ? sum_to(g[i], c.inputs[i].shape()) : Value();
    }
    return g;
  }
  static void reference(const ReferenceCall& c) {
    for_each_broadcast(c.outputs[0].type->shape, c.inputs[0].type->shape, c.inputs[1].type->shape,
                       [&](std::int64_t i, std::int64_t a, std::int64_t b) {
                         c.outputs[0].set(i, Op::f(c.inputs[0].get(a), c.inputs[1].get(b)));
                       });
  }
  static std::vector<Sample> samples() { return binary_samples(-2.0, 2.0); }
};

/// A comparison of two tensors of one dtype, broadcast, to bool. Op gives `f(a, b)` for float and for int64.
template <class Op>
struct Comparison : NoGradient<Op>, Elementwise {
  static Types infer(const InTypes& in, const Attrs&) {
    require(in.size() == 2, "{}: takes two tensors, got {}", Op::name, in.size());
    require_same_dtype(Op::name, in, 0, 1);
    require(!is_quantised(in[0].dtype), "{}: does not take {}", Op::name, ir::to_string(in[0]));
    return {{DType::boolean, ir::broadcast_shapes(in[0].shape, in[1].shape, Op::name)}};
  }
  static void reference(const ReferenceCall& c) {
    const bool floats = is_float(c.inputs[0].type->dtype);
    for_each_broadcast(c.outputs[0].type->shape, c.inputs[0].type->shape, c.inputs[1].type->shape,
                       [&](std::int64_t i, std::int64_t a, std::int64_t b) {
                         const bool r = floats ? Op::f(c.inputs[0].get(a), c.inputs[1].get(b))
                                               : Op::f(c.inputs[0].get_int(a), c.inputs[1].get_int(b));
                         c.outputs[0].set_int(i, r ? 1 : 0);
                       });
  }
  static std::vector<Sample> samples() {
    std::vector<Sample> out = binary_samples(-1.0, 1.0, false);
    for (const DType t : {DType::i8, DType::u8, DType::i32, DType::i64, DType::boolean}) {
      out.push_back({{{{t, {5, 9}}, 0, 3}, {{t, {9}}, 0, 3}}, {}, false});
    }
    return out;
  }
};

/// A logical operation of boolean tensors, broadcast. Op gives `f(bool, bool)`.
template <class Op>
struct Logical : NoGradient<Op>, Elementwise {
  static Types infer(const InTypes& in, const Attrs&) {
    require(in.size() == 2, "{}: takes two tensors, got {}", Op::name, in.size());
    require(in[0].dtype == DType::boolean && in[1].dtype == DType::boolean,
            "{}: takes two bool tensors, got {} and {}; compare or cast() first", Op::name, ir::to_string(in[0]),
            ir::to_string(in[1]));
    return {{DType::boolean, ir::broadcast_shapes(in[0].shape, in[1].shape, Op::name)}};
  }
  static void reference(const ReferenceCall& c) {
    for_each_broadcast(c.outputs[0].type->shape, c.inputs[0].type->shape, c.inputs[1].type->shape,
                       [&](std::int64_t i, std::int64_t a, std::int64_t b) {
                         c.outputs[0].set_int(i,
                                              Op::f(c.inputs[0].get_int(a) != 0, c.inputs[1].get_int(b) != 0) ? 1 : 0);
                       });
  }
  static std::vector<Sample> samples() {
    return {{{{{DType::boolean, {4, 33}}, 0, 2}, {{DType::boolean, {33}}, 0, 2}}, {}, false}};
  }
};

}  // namespace isotone::ops
