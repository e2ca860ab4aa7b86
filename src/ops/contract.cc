// Sum of products over shared dimensions: the one operation behind matmul, linear and einsum.
#include <cmath>
#include "ops/functions.h"
#include "ops/support/attributes.h"

#include "base/tree.h"
#include "ops/support/contraction.h"
#include "ops/support/contraction_tree.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct Contract {
  static constexpr std::string_view name = "contract";
  static Types infer(const InTypes& in, const Attrs& a) {
    require(in.size() == 2, "contract: takes two tensors, got {}", in.size());
    const ContractionSpec s = parse_contraction(a.text("spec"), in[0], in[1]);
    if (is_quantised(in[1].dtype)) {
      require(s.reduced.size() == 1 && s.batch.empty() && s.right.size() == 2 && s.right[1] == s.reduced[0] &&
                  s.left.back() == s.reduced[0] && (in[0].dtype == DType::f32 || in[0].dtype == DType::bf16),
              "contract: quantised weights {} are multiplied as linear(x, w) with x f32 or bf16, not as '{}' with {}",
              ir::to_string(in[1]), a.text("spec"), ir::to_string(in[0]));
    } else {
      require_same_dtype(name, in, 0, 1);
      require_float(name, in[0]);
    }
    Shape out;
    for (const char c : s.out) {
      out.push_back(letter_size(s, c, in[0].shape, in[1].shape));
    }
    return {{float_dtype_attr(name, a), out}};
  }
  static Values vjp(const VjpCall& c) {
    const std::string& spec = c.attrs.text("spec");
    const ContractionSpec s = parse_contraction(spec, c.inputs[0].type(), c.inputs[1].type());
    Values out(2);
    const DType compute = c.inputs[0].dtype();
    const Value g = cast(c.cotangents[0], compute);
    if (c.wanted[0]) {
      require(!is_quantised(c.inputs[1].dtype()),
              "contract: no gradient through quantised weights; load the model as f32 or bf16");
      out[0] = contract(g, c.inputs[1], s.out + "," + s.right + "->" + s.left, compute, false);
    }
    if (c.wanted[1]) {
      // A weight's gradient stays f32: it is rounded never (numerics, section 1).
      const DType to = c.attrs.flag("weight") ? DType::f32 : compute;
      out[1] = contract(g, c.inputs[0], s.out + "," + s.left + "->" + s.right, to, false);
    }
    return out;
  }
  static void reference(const ReferenceCall& c);
  static ShardRule shard(const InTypes& in, const Types&, const Attrs& a) {
    const ContractionSpec s = parse_contraction(a.text("spec"), in[0], in[1]);
    ShardRule rule{{s.left, s.right}, {s.out}};
    rule.joined = s.reduced;
    if (is_quantised(in[1].dtype)) {  // rows of blocks stay whole
      rule.joined = "";
      for (std::string& letters : rule.inputs) {
        letters.back() = '.';
      }
    }
    return rule;
  }
  static std::vector<Sample> samples() {
    std::vector<Sample> out;
    const auto add = [&](DType t, Shape a, Shape b, const char* spec, bool gradient, DType to) {
      out.push_back({{{{t, std::move(a)}}, {{t, std::move(b)}}},
                     {{"spec", std::string(spec)}, {"dtype", as_attr(to)}, {"weight", std::int64_t{0}}},
                     gradient});
    };
    for (const DType t : {DType::f32, DType::bf16, DType::f16}) {
      const bool g = t == DType::f32;
      add(t, {3, 33}, {5, 33}, "mk,nk->mn", g, t);
      add(t, {2, 7, 64}, {70, 64}, "gti,oi->gto", false, DType::f32);
      add(t, {2, 7, 5}, {2, 7, 6}, "gto,gti->oi", g, DType::f32);
      add(t, {3, 300, 5}, {3, 300, 66}, "gto,gti->oi", false, DType::f32);
      add(t, {2, 4, 5}, {2, 5, 3}, "bij,bjk->bik", g, t);
      add(t, {4, 9}, {4, 9}, "gt,gt->t", g, DType::f32);
      add(t, {600}, {600}, "k,k->", false, DType::f32);
      add(t, {1, 1000}, {65, 1000}, "mk,nk->mn", false, t);
      add(t, {4, 3}, {5}, "ab,c->abc", g, t);
    }
    for (const DType q : {DType::q4_0, DType::q4_1, DType::q8_0}) {
      for (const DType x : {DType::f32, DType::bf16}) {
        out.push_back({{{{x, {3, 576}}}, {{q, {70, 576}}}},
                       {{"spec", std::string("ti,oi->to")}, {"dtype", as_attr(x)}, {"weight", std::int64_t{1}}},
                       false});
      }
    }
    return out;
  }
};

/// Offset of a letter's dimension in a contiguous tensor; 0 where the tensor lacks it.
std::int64_t stride_of(const std::string& letters, const std::vector<std::int64_t>& strides, char c) {
  const std::size_t i = letters.find(c);
  return i == std::string::npos ? 0 : strides[i];
}

float add_f32(float l, float r) {
  return l + r;
}

/// One output of a contraction with quantised weights (numerics, section 9).
float quantised_dot(const HostTensor& x, std::int64_t at, const HostTensor& w, std::int64_t row, std::int64_t n) {
  const DType q = w.type->dtype;
  const auto* blocks =
      static_cast<const std::uint8_t*>(w.data) + static_cast<std::size_t>(row * n / kQuantBlock) * unit_bytes(q);
  const auto leaf = [&](std::int64_t begin, std::int64_t count) {
    float acc = 0.0F;
    for (std::int64_t b = begin / kQuantBlock; b < (begin + count) / kQuantBlock; ++b) {
      const std::uint8_t* block = blocks + static_cast<std::size_t>(b) * unit_bytes(q);
      const auto half_at = [&](std::size_t offset) {
        std::uint16_t bits = 0;
        std::memcpy(&bits, block + offset, 2);
        return static_cast<float>(f16::from_bits(bits));
      };
      // A block that is not finite has the scale NaN and codes of 0.
      float largest = 0.0F;
      for (std::int64_t i = 0; i < kQuantBlock; ++i) {
        const float v = std::fabs(x.get(at + b * kQuantBlock + i));
        if (!std::isfinite(v)) {
          largest = std::numeric_limits<float>::quiet_NaN();
          break;
        }
        largest = std::fmax(largest, v);
      }
      const float scale = largest / 127.0F;
      std::int32_t dot = 0, total = 0;
      for (std::int64_t i = 0; i < kQuantBlock; ++i) {
        const float v = !(scale > 0.0F) ? 0.0F : std::nearbyint(x.get(at + b * kQuantBlock + i) / scale);
        const auto a = static_cast<std::int32_t>(v);
        const auto j = static_cast<std::size_t>(i);
        const std::uint8_t nibbles = block[(q == DType::q4_1 ? 4 : 2) + j % 16];
        const std::int32_t u = j < 16 ? nibbles & 15 : nibbles >> 4;
        const std::int32_t weight = q == DType::q8_0   ? static_cast<std::int8_t>(block[2 + j])
                                    : q == DType::q4_0 ? u - 8
                                                       : u;
        dot += a * weight;
        total += a;
      }
      acc = std::fma(static_cast<float>(dot), half_at(0) * scale, acc);
      if (q == DType::q4_1) {
        acc = std::fma(static_cast<float>(total), half_at(2) * scale, acc);
      }
    }
    return acc + 0.0F;
  };
  return axis_tree(0, n, leaf, add_f32);
}

void Contract::reference(const ReferenceCall& c) {
  const HostTensor &a = c.inputs[0], &b = c.inputs[1], &y = c.outputs[0];
  const ContractionSpec s = parse_contraction(c.attrs.text("spec"), *a.type, *b.type);
  const auto sa = ir::contiguous_strides(a.type->shape), sb = ir::contiguous_strides(b.type->shape);
  for (std::int64_t o = 0; o < y.elements(); ++o) {
    std::int64_t rest = o, at = 0, bt = 0;
    for (std::size_t d = s.out.size(); d-- > 0;) {
      const std::int64_t i = rest % y.type->shape[d];
      rest /= y.type->shape[d];
      at += i * stride_of(s.left, sa, s.out[d]);
      bt += i * stride_of(s.right, sb, s.out[d]);
    }
    if (is_quantised(b.type->dtype)) {
      const std::int64_t n = b.type->shape[1];
      y.set(o, quantised_dot(a, at, b, bt / n, n));
      continue;
    }
    const auto level = [&](const auto& self, std::size_t depth, std::int64_t pa, std::int64_t pb) -> float {
      if (s.reduced.empty()) {
        return std::fma(a.get(pa), b.get(pb), 0.0F) + 0.0F;
      }
      const char letter = s.reduced[depth];
      const std::int64_t n = letter_size(s, letter, a.type->shape, b.type->shape);
      const std::int64_t da = stride_of(s.left, sa, letter), db = stride_of(s.right, sb, letter);
      if (depth + 1 < s.reduced.size()) {
        return n == 0 ? 0.0F
                      : element_tree(
                            0, n, [&](std::int64_t i) { return self(self, depth + 1, pa + i * da, pb + i * db); },
                            add_f32);
      }
      return contraction_tree(
          a.type->dtype, n, [&](std::int64_t i) { return a.get(pa + i * da); },
          [&](std::int64_t i) { return b.get(pb + i * db); });
    };
    y.set(o, level(level, 0, at, bt));
  }
}

}  // namespace

/// Sum of products by a spec such as "gti,oi->gto" (docs: ops/support/contraction.h). Both of one float dtype, or the
/// right one quantised as linear() has it. Result in `dtype`. `weight`: the right one is a parameter, whose gradient
/// stays f32.
/// @api Value contract(const Value& a, const Value& b, const std::string& spec, DType dtype, bool weight = false);
Value contract(const Value& a, const Value& b, const std::string& spec, DType dtype, bool weight) {
  return apply1("contract", {a, b}, {{"spec", spec}, {"dtype", as_attr(dtype)}, {"weight", std::int64_t{weight}}});
}

/// x [..., in] times w [out, in] (transposed, as checkpoints store it): [..., out] in `dtype` (x's by default). w may
/// be quantised.
/// @api Value linear(const Value& x, const Value& w);
/// @api Value linear(const Value& x, const Value& w, DType dtype);
Value linear(const Value& x, const Value& w, DType dtype) {
  require(x.rank() >= 1 && x.rank() <= 20 && w.rank() == 2 && x.dim(-1) == w.dim(1),
          "linear: x {} does not fit w {}: the last axes must be equal", ir::to_string(x.type()),
          ir::to_string(w.type()));
  const std::string lead = std::string("abcdefghjklmnpqrstuv").substr(0, static_cast<std::size_t>(x.rank()) - 1);
  return contract(x, w, lead + "i,oi->" + lead + "o", dtype, true);
}
Value linear(const Value& x, const Value& w) {
  return linear(x, w, x.dtype());
}

/// The matrix product of [..., m, k] and [..., k, n], leading axes broadcast; [..., m, n] in the inputs' dtype.
/// @api Value matmul(const Value& a, const Value& b);
Value matmul(const Value& a, const Value& b) {
  require(a.rank() >= 2 && b.rank() >= 2 && a.dim(-1) == b.dim(-2),
          "matmul: {} and {} do not fit: the left's last axis must equal the right's second last",
          ir::to_string(a.type()), ir::to_string(b.type()));
  Shape la(a.shape().begin(), a.shape().end() - 2), lb(b.shape().begin(), b.shape().end() - 2);
  const Shape lead = ir::broadcast_shapes(la, lb, "matmul");
  la = lead;
  lb = lead;
  la.insert(la.end(), {a.dim(-2), a.dim(-1)});
  lb.insert(lb.end(), {b.dim(-2), b.dim(-1)});
  require(lead.size() <= 20, "matmul: rank above 22");
  const std::string l = std::string("abcdefghjlopqrstuvwxyz").substr(0, lead.size());
  return contract(broadcast_to(a, la), broadcast_to(b, lb), l + "mk," + l + "kn->" + l + "mn", a.dtype());
}

/// Einstein summation of one or two tensors ("bij,bjk->bik", "ii->i" is not offered). Letters missing in the output are
/// summed; the order is that of the left tensor.
/// @api Value einsum(const std::string& spec, Values xs);
Value einsum(const std::string& spec, Values xs) {
  const std::size_t arrow = spec.find("->");
  require(arrow != std::string::npos, "einsum: spec '{}' needs '->'", spec);
  const std::string out = spec.substr(arrow + 2);
  std::vector<std::string> parts{""};
  for (std::size_t i = 0; i < arrow; ++i) {
    if (spec[i] == ',') {
      parts.emplace_back();
    } else if (spec[i] != ' ') {
      parts.back() += spec[i];
    }
  }
  require(parts.size() == xs.size() && (xs.size() == 1 || xs.size() == 2),
          "einsum: spec '{}' names {} tensors, got {}; one or two are taken", spec, parts.size(), xs.size());
  for (std::size_t i = 0; i < xs.size(); ++i) {
    require(static_cast<int>(parts[i].size()) == xs[i].rank(), "einsum: '{}' names {} axes, the tensor is {}", parts[i],
            parts[i].size(), ir::to_string(xs[i].type()));
    Ints lone;
    std::string kept;
    for (std::size_t d = 0; d < parts[i].size(); ++d) {
      const char c = parts[i][d];
      require(parts[i].find(c, d + 1) == std::string::npos,
              "einsum: '{}' repeats '{}' in one tensor, which is not offered", spec, c);
      const bool elsewhere =
          out.find(c) != std::string::npos || (xs.size() == 2 && parts[1 - i].find(c) != std::string::npos);
      if (elsewhere) {
        kept += c;
      } else {
        lone.push_back(static_cast<std::int64_t>(d));
      }
    }
    if (!lone.empty()) {
      xs[i] = sum(xs[i], lone);
      parts[i] = kept;
    }
  }
  if (xs.size() == 2) {
    return contract(xs[0], xs[1], parts[0] + "," + parts[1] + "->" + out, xs[0].dtype());
  }
  Ints order;
  for (const char c : out) {
    require(parts[0].find(c) != std::string::npos, "einsum: '{}' of '{}' is in no input", c, spec);
    order.push_back(static_cast<std::int64_t>(parts[0].find(c)));
  }
  return transpose(xs[0], order);
}

ISOTONE_OP(contract, Contract);

}  // namespace isotone::ops
