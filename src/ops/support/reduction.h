// What reductions share: the list of axes, the walk over outputs, and plain reductions in canonical order.
#pragma once

#include <algorithm>
#include <array>
#include <limits>

#include "base/error.h"
#include "base/fmath.h"
#include "base/tree.h"
#include "ops/functions.h"
#include "ops/support/shard.h"

namespace isotone::ops {

/// Axes of a reduction in declared order, counted from the front; empty means all, in order.
inline Ints normal_axes(const Ints& axes, int rank, std::string_view op) {
  Ints out;
  std::vector<bool> seen(static_cast<std::size_t>(rank), false);
  for (const std::int64_t a : axes) {
    const int axis = ir::normal_axis(a, rank, op);
    require(!seen[static_cast<std::size_t>(axis)], "{}: axis {} is named twice", op, a);
    seen[static_cast<std::size_t>(axis)] = true;
    out.push_back(axis);
  }
  for (int i = 0; axes.empty() && i < rank; ++i) {
    out.push_back(i);
  }
  return out;
}

inline Shape reduced_shape(const Shape& shape, const Ints& axes, bool keep) {
  Shape out;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    bool reduced = false;
    for (const std::int64_t a : axes) {
      reduced = reduced || a == static_cast<std::int64_t>(i);
    }
    if (!reduced) {
      out.push_back(shape[i]);
    } else if (keep) {
      out.push_back(1);
    }
  }
  return out;
}

/// A leaf of a plain reduction: sixteen chains, folded by halves, normalised by adding +0.
template <class Get>
float plain_leaf(std::int64_t begin, std::int64_t n, const Get& get) {
  std::array<float, kChains> chain{};
  for (std::int64_t i = 0; i < n; ++i) {
    chain[static_cast<std::size_t>(i % kChains)] += get(begin + i);
  }
  for (std::size_t half = kChains / 2; half >= 1; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) {
      chain[i] += chain[i + half];
    }
  }
  return chain[0] + 0.0F;
}

/// The plain reduction (numerics, section 2) of `n` items; +0 where there is none.
template <class Get>
float plain_sum(std::int64_t n, const Get& get) {
  return axis_tree(
      0, n, [&](std::int64_t b, std::int64_t k) { return plain_leaf(b, k, get); },
      [](float l, float r) { return l + r; });
}

/// Calls visit(output index, offset of the output's first element) for a contiguous input with `axes` removed.
template <class Visit>
void for_each_output(const Shape& shape, const Ints& axes, const Visit& visit) {
  const auto strides = ir::contiguous_strides(shape);
  Shape kept;
  std::vector<std::int64_t> kept_strides;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    bool reduced = false;
    for (const std::int64_t a : axes) {
      reduced = reduced || a == static_cast<std::int64_t>(i);
    }
    if (!reduced) {
      kept.push_back(shape[i]);
      kept_strides.push_back(strides[i]);
    }
  }
  const std::int64_t n = Type{DType::f32, kept}.elements();
  for (std::int64_t o = 0; o < n; ++o) {
    std::int64_t rest = o, offset = 0;
    for (std::size_t d = kept.size(); d-- > 0;) {
      offset += rest % kept[d] * kept_strides[d];
      rest /= kept[d];
    }
    visit(o, offset);
  }
}

inline Types infer_reduction(std::string_view op, const InTypes& in, const Attrs& a) {
  require(in.size() == 1, "{}: takes one tensor, got {}", op, in.size());
  require_float(op, in[0]);
  return {
      {in[0].dtype, reduced_shape(in[0].shape, normal_axes(a.ints("axes"), in[0].rank(), op), a.flag("keep_dims"))}};
}

/// Letters for all dimensions; those that are reduced are joined where parts of them can be (`joined`), else every
/// worker needs them whole.
inline ShardRule reduction_rule(std::string_view op, const InTypes& in, const Attrs& a, bool joined) {
  const std::size_t rank = in[0].shape.size();
  const Ints axes = normal_axes(a.ints("axes"), static_cast<int>(rank), op);
  const bool keep = a.flag("keep_dims");
  ShardRule rule{{joined ? letters_without(rank, {}) : letters_without(rank, axes)}, {""}};
  for (std::size_t i = 0; i < rank; ++i) {
    const bool reduced = std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(i)) != axes.end();
    if (!reduced) {
      rule.outputs[0] += dim_letter(i);
    } else if (keep) {
      rule.outputs[0] += '.';
    }
  }
  for (const std::int64_t i : axes) {
    rule.joined += joined ? std::string(1, dim_letter(static_cast<std::size_t>(i))) : "";
  }
  return rule;
}

/// A cotangent without the reduced axes, spread again over the shape of x.
inline Value spread(const Value& g, const Value& x, const Attrs& a, std::string_view op) {
  const Ints axes = normal_axes(a.ints("axes"), x.rank(), op);
  return broadcast_to(reshape(g, reduced_shape(x.shape(), axes, true)), x.shape());
}

inline std::vector<Sample> reduction_samples() {
  std::vector<Sample> out;
  for (const DType t : {DType::f32, DType::bf16}) {
    const bool g = t == DType::f32;
    const std::int64_t yes = 1, no = 0;
    out.push_back({{{{t, {3, 1000}}}}, {{"axes", Ints{1}}, {"keep_dims", no}}, false});
    out.push_back({{{{t, {3, 37}}}}, {{"axes", Ints{1}}, {"keep_dims", yes}}, g});
    out.push_back({{{{t, {37, 3}}}}, {{"axes", Ints{0}}, {"keep_dims", no}}, g});
    out.push_back({{{{t, {5, 4, 7}}}}, {{"axes", Ints{0, 1}}, {"keep_dims", no}}, g});
    out.push_back({{{{t, {2, 300, 3}}}}, {{"axes", Ints{0, 1}}, {"keep_dims", yes}}, false});
    out.push_back({{{{t, {2, 3, 4}}}}, {{"axes", Ints{2, 0}}, {"keep_dims", yes}}, g});
    out.push_back({{{{t, {11}}}}, {{"axes", Ints{}}, {"keep_dims", no}}, g});
  }
  return out;
}

inline Attrs reduction_attrs(Ints axes, bool keep_dims) {
  return {{"axes", std::move(axes)}, {"keep_dims", std::int64_t{keep_dims ? 1 : 0}}};
}

/// Samples of operations over one axis, as attribute "axis".
inline std::vector<Sample> axis_samples(bool gradient = true) {
  std::vector<Sample> out;
  for (const DType t : {DType::f32, DType::bf16}) {
    const bool g = gradient && t == DType::f32;
    out.push_back({{{{t, {3, 576}}}}, {{"axis", std::int64_t{1}}}, false});
    out.push_back({{{{t, {4, 33}}}}, {{"axis", std::int64_t{1}}}, g});
    out.push_back({{{{t, {5, 3, 2}}}}, {{"axis", std::int64_t{0}}}, g});
    out.push_back({{{{t, {2, 300, 3}}}}, {{"axis", std::int64_t{1}}}, false});
  }
  return out;
}

}  // namespace isotone::ops
