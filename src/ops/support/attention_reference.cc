// Attention by definition, one row after another: the executable contract and the oracle of every kernel.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/fmath.h"
#include "base/parallel.h"
#include "base/tree.h"
#include "ops/support/attention_check.h"

namespace isotone::ops {
namespace {

using namespace attention_rules;
using Row = std::vector<float>;
constexpr float kInf = std::numeric_limits<float>::infinity();

/// The contraction's leaf over n items: bf16 in pairs, the odd one first (section 3); an item beyond n is absent.
template <class A, class B>
float leaf(DType t, std::int64_t n, const A& a, const B& b) {
  float sum = 0.0F;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t k = t == DType::bf16 ? (i ^ 1) : i;
    if (k < n) {
      sum = std::fma(a(k), b(k), sum);
    } else {
      sum = std::fma(a(i), b(i), sum);
      break;
    }
  }
  return sum + 0.0F;
}

float plain_leaf(std::int64_t n, const auto& item) {
  float chain[kChains] = {};
  for (std::int64_t i = 0; i < n; ++i) {
    chain[i % kChains] += item(i);
  }
  for (int half = kChains / 2; half >= 1; half /= 2) {
    for (int i = 0; i < half; ++i) {
      chain[i] += chain[i + half];
    }
  }
  return chain[0] + 0.0F;
}

struct State {
  float m = -kInf, l = 0.0F;
  Row o;
  bool empty() const { return m == -kInf && l == 0.0F; }
};

State merge(const State& x, const State& y) {
  if (x.empty() || y.empty()) {
    return x.empty() ? y : x;
  }
  State r;
  r.m = std::max(x.m, y.m);
  const float a1 = fmath::exp(x.m - r.m), a2 = fmath::exp(y.m - r.m);
  r.l = x.l * a1 + y.l * a2;
  for (std::size_t i = 0; i < x.o.size(); ++i) {
    r.o.push_back(x.o[i] * a1 + y.o[i] * a2);
  }
  return r;
}

Row add(const Row& x, const Row& y) {
  Row r;
  for (std::size_t i = 0; i < x.size(); ++i) {
    r.push_back(x[i] + y[i]);
  }
  return r;
}

/// One query row over the keys [range.begin, range.end): `k(j)`, `v(j)` give the element offsets of position j.
State attend(DType t, std::int64_t d, float scale, const Row& q, Range range, const auto& k, const auto& v) {
  const auto block = [&](std::int64_t b) {
    State s;
    const std::int64_t begin = std::max(range.begin, b * kAttentionBlock);
    const std::int64_t end = std::min(range.end, (b + 1) * kAttentionBlock);
    std::vector<float> p(kAttentionBlock, 0.0F);
    for (std::int64_t j = begin; j < end; ++j) {
      p[j % kAttentionBlock] = leaf(
                                   t, d, [&](auto i) { return q[i]; }, [&](auto i) { return k(j, i); }) *
                               scale;
      s.m = std::max(s.m, p[j % kAttentionBlock]);
    }
    for (std::int64_t j = begin; j < end; ++j) {
      p[j % kAttentionBlock] = fmath::exp(p[j % kAttentionBlock] - s.m);
    }
    s.l = plain_leaf(kAttentionBlock, [&](auto i) { return p[i]; });
    for (std::int64_t c = 0; c < d; ++c) {
      s.o.push_back(leaf(
          t, kAttentionBlock, [&](auto i) { return round_to(t, p[i]); },
          [&](auto i) {
            const std::int64_t j = b * kAttentionBlock + i;
            return j >= begin && j < end ? v(j, c) : 0.0F;
          }));
    }
    return s;
  };
  return prefix_tree(range.begin / kAttentionBlock, (range.end + kAttentionBlock - 1) / kAttentionBlock, block, merge);
}

Row read_row(const AttentionInput& x, DType t, std::int64_t d, std::int64_t g, std::int64_t i, std::int64_t h) {
  Row row;
  for (std::int64_t c = 0; c < d; ++c) {
    row.push_back(read_element(x.data, t, g * x.g_stride + i * x.t_stride + h * x.h_stride + c));
  }
  return row;
}

void write_row(const AttentionOutput& x, DType t, std::int64_t g, std::int64_t i, std::int64_t h, const Row& row) {
  for (std::size_t c = 0; c < row.size(); ++c) {
    write_element(x.data, t, g * x.g_stride + i * x.t_stride + h * x.h_stride + static_cast<std::int64_t>(c), row[c]);
  }
}

void finish(State& s, float* lse) {
  for (float& x : s.o) {
    x = x / s.l;
  }
  if (lse != nullptr) {
    write_element(lse, DType::f32, 0, s.m + fmath::log(s.l));
  }
}

}  // namespace

void attention_forward_reference(const AttentionForward& a) {
  const AttentionShape& s = a.shape;
  const FlushSubnormals flush;
  for (const Document& doc : check_shape("attention", s)) {
    for (std::int64_t i = 0; i < doc.length; ++i) {
      for (std::int64_t h = 0; h < s.heads; ++h) {
        const std::int64_t hk = h / (s.heads / s.kv_heads);
        const auto at = [&](const AttentionInput& x) {
          return [&s, &doc, &x, hk](std::int64_t j, std::int64_t c) {
            return read_element(x.data, s.dtype,
                                doc.g * x.g_stride + (doc.begin + j) * x.t_stride + hk * x.h_stride + c);
          };
        };
        State state = attend(s.dtype, s.d, s.scale, read_row(a.q, s.dtype, s.d, doc.g, doc.begin + i, h),
                             visible_keys(s.causal, s.window, doc.length, i), at(a.k), at(a.v));
        finish(state, a.lse == nullptr ? nullptr : a.lse + (doc.g * s.t + doc.begin + i) * s.heads + h);
        write_row(a.o, s.dtype, doc.g, doc.begin + i, h, state.o);
      }
    }
  }
}

void paged_attention_reference(const PagedAttention& a) {
  check_paged(a, {0, INT64_MAX});
  const FlushSubnormals flush;
  for (std::int64_t n = 0; n < a.b * a.t * a.heads; ++n) {
    const std::int64_t h = n % a.heads, i = n / a.heads % a.t, r = n / a.heads / a.t;
    const std::int64_t p = a.positions[r * a.t + i];
    State state;
    if (p < 0) {
      state.o.assign(static_cast<std::size_t>(a.d), 0.0F);
      if (a.lse != nullptr) {
        a.lse[n] = -kInf;
      }
    } else {
      const auto at = [&](const void* data) {
        return [&a, data, r, h](std::int64_t j, std::int64_t c) {
          const std::int64_t page = a.table[r * a.table_stride + j / a.page];
          return read_element(data, a.dtype,
                              page * a.page_stride + h / (a.heads / a.kv_heads) * a.page_head_stride +
                                  j % a.page * a.page_slot_stride + c);
        };
      };
      state = attend(a.dtype, a.d, a.scale, read_row(a.q, a.dtype, a.d, r, i, h), visible_keys(true, a.window, 0, p),
                     at(a.k_pages), at(a.v_pages));
      finish(state, a.lse == nullptr ? nullptr : a.lse + n);
    }
    write_row(a.o, a.dtype, r, i, h, state.o);
  }
}

void attention_backward_reference(const AttentionBackward& a) {
  const AttentionShape& s = a.shape;
  const DType t = s.dtype;
  const FlushSubnormals flush;
  const std::int64_t group = s.heads / s.kv_heads;
  for (const Document& doc : check_shape("attention_grad", s)) {
    for (std::int64_t hk = 0; hk < s.kv_heads; ++hk) {
      const auto rows = [&](const AttentionInput& x, std::int64_t h) {
        std::vector<Row> r;
        for (std::int64_t i = 0; i < doc.length; ++i) {
          r.push_back(read_row(x, t, s.d, doc.g, doc.begin + i, h));
        }
        return r;
      };
      const auto k = rows(a.k, hk), v = rows(a.v, hk);
      std::vector<std::vector<Row>> dk(doc.length), dv(doc.length);  // [key][head of the group]
      for (std::int64_t h = hk * group; h < (hk + 1) * group; ++h) {
        const auto q = rows(a.q, h), o = rows(a.o, h), d_o = rows(a.d_o, h);
        std::vector<Row> p(doc.length, Row(doc.length)), ds(doc.length, Row(doc.length));  // [query][key], rounded
        for (std::int64_t i = 0; i < doc.length; ++i) {
          const float lse = a.lse[(doc.g * s.t + doc.begin + i) * s.heads + h];
          const float delta = plain_leaf(s.d, [&](auto c) { return d_o[i][c] * o[i][c]; });
          const Range seen = visible_keys(s.causal, s.window, doc.length, i);
          for (std::int64_t j = seen.begin; j < seen.end; ++j) {
            const float score = leaf(
                                    t, s.d, [&](auto c) { return q[i][c]; }, [&](auto c) { return k[j][c]; }) *
                                s.scale;
            const float dp = leaf(
                t, s.d, [&](auto c) { return d_o[i][c]; }, [&](auto c) { return v[j][c]; });
            const float e = fmath::exp(score - lse);
            p[i][j] = round_to(t, e);
            ds[i][j] = round_to(t, (e * (dp - delta)) * s.scale);
          }
          // Sum over the positions of one block that lie in `seen`, of weight(position) * row(position).
          const auto contract = [&](Range range, std::int64_t block, const auto& weight, const std::vector<Row>& row) {
            Row sum;
            for (std::int64_t c = 0; c < s.d; ++c) {
              const auto in = [&](std::int64_t n) {
                const std::int64_t j = block * kAttentionBlock + n;
                return j >= range.begin && j < range.end;
              };
              sum.push_back(leaf(
                  t, kAttentionBlock, [&](auto n) { return in(n) ? weight(block * kAttentionBlock + n) : 0.0F; },
                  [&](auto n) { return in(n) ? row[block * kAttentionBlock + n][c] : 0.0F; }));
            }
            return sum;
          };
          const Row dq = prefix_tree(
              seen.begin / kAttentionBlock, (seen.end + kAttentionBlock - 1) / kAttentionBlock,
              [&](auto b) {
                return contract(
                    seen, b, [&](auto j) { return ds[i][j]; }, k);
              },
              add);
          write_row(a.dq, t, doc.g, doc.begin + i, h, dq);
          if (i + 1 < doc.length) {
            continue;
          }
          for (std::int64_t j = 0; j < doc.length; ++j) {  // p and ds are whole now
            const Range by = visible_queries(s.causal, s.window, doc.length, j);
            const std::int64_t first = by.begin / kAttentionBlock,
                               last = (by.end + kAttentionBlock - 1) / kAttentionBlock;
            const auto column = [j](const std::vector<Row>& x) { return [&x, j](auto n) { return x[n][j]; }; };
            dv[j].push_back(prefix_tree(
                first, last, [&](auto b) { return contract(by, b, column(p), d_o); }, add));
            dk[j].push_back(prefix_tree(
                first, last, [&](auto b) { return contract(by, b, column(ds), q); }, add));
          }
        }
      }
      for (std::int64_t j = 0; j < doc.length; ++j) {
        const auto join = [&](const std::vector<Row>& x) {
          return element_tree(
              0, group, [&](auto n) { return x[n]; }, add);
        };
        write_row(a.dk, t, doc.g, doc.begin + j, hk, join(dk[j]));
        write_row(a.dv, t, doc.g, doc.begin + j, hk, join(dv[j]));
      }
    }
  }
}

}  // namespace isotone::ops
