// How the attention operations read their calls, and the scalar attention that is their reference.
#pragma once

#include "base/error.h"
#include "ops/functions.h"
#include "ops/support/attention_reference.h"

namespace isotone::ops {

inline void check_attention(std::string_view op, const InTypes& in, const Attrs& a) {
  require_same_dtype(op, in, 0, 2);
  require_float(op, in[0]);
  require(in[0].rank() == 4 && in[1].rank() == 4 && in[2] == in[1],
          "{}: q, k and v must be [grain, token, head, width], got {}, {} and {}", op, ir::to_string(in[0]),
          ir::to_string(in[1]), ir::to_string(in[2]));
  const Shape &q = in[0].shape, &k = in[1].shape;
  require(q[0] == k[0] && q[1] == k[1] && q[3] == k[3] && k[2] > 0 && q[2] % k[2] == 0,
          "{}: q {} and k {} must agree in grains, tokens and width, and the heads be a multiple of the kv heads", op,
          ir::to_string(in[0]), ir::to_string(in[1]));
  require(!in.has(3) || in[3] == (Type{DType::i32, {q[0], q[1]}}), "{}: document starts must be i32[{}, {}], got {}",
          op, q[0], q[1], in.has(3) ? ir::to_string(in[3]) : "none");
  require(a.integer("window") >= 0, "{}: window {} is negative", op, a.integer("window"));
}

/// The rule of attention and its gradient: 'g' are grains; a unit of 'h' is one key head with the query heads that read
/// it. `rule` has the letters: an upper case 'H' stands for the heads of a query.
inline ShardRule heads_rule(const InTypes& in, ShardRule rule) {
  const std::int64_t group = in[0].shape[2] / in[1].shape[2];
  const auto unify = [group](std::vector<std::string>& all, std::vector<Ints>& units) {
    for (std::string& letters : all) {
      units.emplace_back(letters.size(), 1);
      if (const std::size_t at = letters.find('H'); at != std::string::npos) {
        letters[at] = 'h';
        units.back()[at] = group;
      }
    }
  };
  unify(rule.inputs, rule.input_units);
  unify(rule.outputs, rule.output_units);
  return rule;
}

inline AttentionInput input_of(const HostTensor& x) {
  const auto s = ir::contiguous_strides(x.type->shape);
  return {x.data, s[0], s[1], s[2]};
}
inline AttentionOutput output_of(const HostTensor& x) {
  const auto s = ir::contiguous_strides(x.type->shape);
  return {x.data, s[0], s[1], s[2]};
}

inline AttentionShape attention_shape(const Type& q, const Type& k, const Attrs& a) {
  AttentionShape s;
  s.g = q.shape[0];
  s.t = q.shape[1];
  s.heads = q.shape[2];
  s.kv_heads = k.shape[2];
  s.d = q.shape[3];
  s.dtype = q.dtype;
  s.scale = static_cast<float>(a.real("scale"));
  s.causal = a.flag("causal");
  s.window = a.integer("window");
  return s;
}

inline AttentionShape shape_of(const ReferenceCall& c) {
  AttentionShape s = attention_shape(*c.inputs[0].type, *c.inputs[1].type, c.attrs);
  s.doc_start = c.inputs[3] ? static_cast<const std::int32_t*>(c.inputs[3].data) : nullptr;
  return s;
}

/// The sizes of a paged call; the pointers are left to the caller.
inline PagedAttention paged_shape(const Type& q, const Type& pages, const Type& table, const Attrs& a) {
  PagedAttention p;
  p.b = q.shape[0];
  p.t = q.shape[1];
  p.heads = q.shape[2];
  p.kv_heads = pages.shape[1];
  p.d = q.shape[3];
  p.dtype = q.dtype;
  p.scale = static_cast<float>(a.real("scale"));
  p.window = a.integer("window");
  p.pages = pages.shape[0];
  p.page = pages.shape[2];
  const auto s = ir::contiguous_strides(pages.shape);
  p.page_stride = s[0];
  p.page_head_stride = s[1];
  p.page_slot_stride = s[2];
  p.table_stride = table.shape[1];
  return p;
}

inline PagedAttention paged_of(const ReferenceCall& c) {
  PagedAttention p = paged_shape(*c.inputs[0].type, *c.inputs[1].type, *c.inputs[3].type, c.attrs);
  p.q = input_of(c.inputs[0]);
  p.k_pages = c.inputs[1].data;
  p.v_pages = c.inputs[2].data;
  p.table = static_cast<const std::int32_t*>(c.inputs[3].data);
  p.positions = static_cast<const std::int32_t*>(c.inputs[4].data);
  p.o = output_of(c.outputs[0]);
  return p;
}

/// Samples of attention (extra = 0) and of its gradient (extra = 3: o, logsumexp, cotangent).
inline std::vector<Sample> attention_samples(int extra) {
  std::vector<Sample> out;
  const auto add = [&](DType t, Shape q, std::int64_t kv, std::int64_t causal, std::int64_t window, bool gradient) {
    Shape k = q;
    k[2] = kv;
    const Attrs a{{"scale", 0.25}, {"causal", causal}, {"window", window}};
    // Document starts of 0: the whole sequence is one document.
    Sample s{{{{t, q}}, {{t, k}}, {{t, k}}, {{DType::i32, {q[0], q[1]}}, 0, 0}}, a, gradient && extra == 0};
    if (extra != 0) {
      s.inputs.push_back({{t, q}});
      s.inputs.push_back({{DType::f32, {q[0], q[1], q[2]}}, 3.0, 5.0});
      s.inputs.push_back({{t, q}});
    }
    out.push_back(std::move(s));
  };
  for (const DType t : {DType::f32, DType::bf16}) {
    add(t, {1, 7, 2, 8}, 1, 1, 0, t == DType::f32);
    add(t, {2, 5, 2, 4}, 2, 0, 0, t == DType::f32);
    add(t, {1, 9, 2, 4}, 2, 1, 3, t == DType::f32);
    add(t, {1, 130, 3, 64}, 1, 1, 0, false);
    add(t, {2, 65, 4, 32}, 2, 1, 20, false);
  }
  return out;
}

}  // namespace isotone::ops
