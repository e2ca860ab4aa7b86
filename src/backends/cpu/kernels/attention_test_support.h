// Inputs, calls and results as bits for the attention tests.
#pragma once

#include <bit>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "backends/cpu/isa.h"
#include "backends/cpu/kernels/attention.h"
#include "base/error.h"
#include "base/parallel.h"
#include "ops/support/attention_check.h"

namespace isotone::cpu::attention_test {

struct Inputs {
  std::vector<float> q, k, v;  // [g, t, heads or kv, d]
  std::vector<float> d_o = {};
};
template <class T>
std::vector<T> slice(const std::vector<T>& x, std::size_t at, std::size_t n) {
  return std::vector<T>(x.begin() + static_cast<std::ptrdiff_t>(at), x.begin() + static_cast<std::ptrdiff_t>(at + n));
}

struct Problem {
  int g = 1, t = 1, heads = 1, kv = 1, d = 64;
  DType dtype = DType::f32;
  bool causal = true;
  int window = 0;
  std::vector<int> lengths = {};  // of documents; empty: one
  std::optional<Inputs> given = std::nullopt;
  std::int64_t keep_bytes = std::int64_t{64} << 20;

  float scale() const { return 1.0F / std::sqrt(static_cast<float>(d)); }
  std::string text() const {
    return fmt::format("{} g={} t={} heads={}/{} d={} causal={} window={} documents={}", dtype_name(dtype), g, t, heads,
                       kv, d, causal, window, lengths.size());
  }
};

/// A float tensor kept in a dtype's storage, with strides that are not the packed ones: rows are `pad` elements longer.
struct Stored {
  DType dtype;
  std::vector<std::byte> bytes;
  Stored(DType t, std::size_t n) : dtype(t), bytes(n * unit_bytes(t)) {}
  Stored(DType t, const std::vector<float>& x) : Stored(t, x.size()) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      ops::attention_rules::write_element(bytes.data(), t, static_cast<std::int64_t>(i), x[i]);
    }
  }
  std::vector<std::uint32_t> bits() const {
    std::vector<std::uint32_t> out;
    for (std::size_t i = 0; i < bytes.size() / unit_bytes(dtype); ++i) {
      std::uint32_t b = 0;
      std::memcpy(&b, bytes.data() + i * unit_bytes(dtype), unit_bytes(dtype));
      out.push_back(b);
    }
    return out;
  }
  float at(std::size_t i) const {
    return ops::attention_rules::read_element(bytes.data(), dtype, static_cast<std::int64_t>(i));
  }
};

inline Inputs inputs(const Problem& p) {
  if (p.given) {
    return *p.given;
  }
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  const auto make = [&](int heads) {
    std::vector<float> x(static_cast<std::size_t>(p.g * p.t * heads * p.d));
    for (float& e : x) {
      e = normal(random) * 1.5F;
    }
    return x;
  };
  Inputs in;
  in.q = make(p.heads);
  in.k = make(p.kv);
  in.v = make(p.kv);
  in.d_o = make(p.heads);
  return in;
}

inline AttentionInput input(const Problem& p, const Stored& x, int heads) {
  return {x.bytes.data(), p.t * heads * p.d, heads * p.d, p.d};
}
inline AttentionOutput output(const Problem& p, Stored& x, int heads) {
  return {x.bytes.data(), p.t * heads * p.d, heads * p.d, p.d};
}
inline std::vector<std::int32_t> starts(const Problem& p) {
  std::vector<std::int32_t> s;
  for (int g = 0; g < p.g && !p.lengths.empty(); ++g) {
    int at = 0;
    for (const int n : p.lengths) {
      s.insert(s.end(), static_cast<std::size_t>(n), at);
      at += n;
    }
  }
  return s;
}
inline AttentionShape shape(const Problem& p, const std::vector<std::int32_t>& s) {
  return {p.g, p.t, p.heads, p.kv, p.d, p.dtype, p.scale(), p.causal, p.window, s.empty() ? nullptr : s.data()};
}

struct Result {
  std::vector<std::uint32_t> o, lse;
};
inline std::vector<std::uint32_t> float_bits(const std::vector<float>& x) {
  std::vector<std::uint32_t> b(x.size());
  std::memcpy(b.data(), x.data(), x.size() * 4);
  return b;
}

inline Result forward(const Problem& p, bool reference) {
  const Inputs in = inputs(p);
  const Stored q(p.dtype, in.q), k(p.dtype, in.k), v(p.dtype, in.v);
  Stored o(p.dtype, in.q.size());
  std::vector<float> lse(static_cast<std::size_t>(p.g * p.t * p.heads), -1.0F);
  const auto s = starts(p);
  const AttentionForward a{shape(p, s),       input(p, q, p.heads),  input(p, k, p.kv),
                           input(p, v, p.kv), output(p, o, p.heads), lse.data()};
  reference ? attention_forward_reference(a) : attention_forward(a);
  return {o.bits(), float_bits(lse)};
}

class WithIsa {
 public:
  explicit WithIsa(Isa isa) : before_(current_isa()) { set_isa(isa); }
  ~WithIsa() { set_isa(before_); }
  WithIsa(const WithIsa&) = delete;
  WithIsa& operator=(const WithIsa&) = delete;

 private:
  Isa before_;
};

}  // namespace isotone::cpu::attention_test
