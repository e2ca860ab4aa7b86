// The attention tiles over one vector type (attention_simd.h), for each dtype: included by one file an instruction set.
// Lanes run over outputs; the order of every sum is that of attention_reference.cc.
#pragma once

#include <cstring>

#include "backends/cpu/kernels/attention_multiply.h"
#include "backends/cpu/kernels/attention_pack.h"
#include "backends/cpu/kernels/attention_tiles.h"

namespace isotone::cpu::attention {
namespace {

/// What the rows of a group see together, and the ranges of columns and of words of a weights row that cover it.
struct Cover {
  int lo = kBlock, hi = 0, from = 0, to = 0;
  std::int64_t begin = 0, end = 0;
};
template <class K>
ISOTONE_INLINE Cover cover(const Slots* seen, int rows) {
  Cover c;
  for (int r = 0; r < rows; ++r) {
    if (seen[r].lo < seen[r].hi) {
      c.lo = seen[r].lo < c.lo ? seen[r].lo : c.lo;
      c.hi = seen[r].hi > c.hi ? seen[r].hi : c.hi;
    }
  }
  if (c.lo < c.hi) {
    c.from = c.lo / 16 * 16;
    c.to = (c.hi + 15) / 16 * 16;
    constexpr int kUnit = K::kPairs || K::kSwap ? 2 : 1;
    c.begin = c.lo / kUnit * kUnit / K::kPerWord;
    c.end = (c.hi + kUnit - 1) / kUnit * kUnit / K::kPerWord;
  }
  return c;
}

/// How many rows the next register tile takes so that tiles are of equal height.
ISOTONE_INLINE int next_rows(int left) {
  const int tiles = (left + kR - 1) / kR;
  return (left + tiles - 1) / tiles;
}

// ---- forward ----
/// One row: scores to weights over columns [c.from, c.to), the row's maximum and sum. kWhole: all columns are seen.
template <class K, bool kWhole>
ISOTONE_INLINE void softmax_row(const float* s, float scale, Slots seen, const Cover& c, float* p, float* m, float* l) {
  const float low = -__builtin_inff();
  Vec x[kBlockVecs], top[kChainVecs], sum[kChainVecs];
#pragma GCC unroll 16
  for (int i = 0; i < kChainVecs; ++i) {
    top[i] = Vec(low);
    sum[i] = Vec(0.0F);
  }
  const int first = kWhole ? 0 : c.from / kL, last = kWhole ? kBlockVecs : c.to / kL;
#pragma GCC unroll 8
  for (int i = first; i < last; ++i) {
    x[i] = Vec::load(s + i * kL) * Vec(scale);
    if (!kWhole) {
      x[i] = select(Vec::in_range(i * kL, seen.lo, seen.hi), x[i], Vec(low));
    }
    top[i % kChainVecs] = larger(x[i], top[i % kChainVecs]);
  }
  const float maximum = Vec::fold_max(top);
#pragma GCC unroll 8
  for (int i = first; i < last; ++i) {
    Vec e = exp_small(x[i] - Vec(maximum));
    if (!kWhole) {
      e = select(Vec::in_range(i * kL, seen.lo, seen.hi), e, Vec(0.0F));
    }
    sum[i % kChainVecs] = sum[i % kChainVecs] + e;
    K::store_weights(p, i * kL, e);
  }
  *m = maximum;
  *l = Vec::fold_add(sum);
}

/// A row that became NaN beside masked slots: their weights are +0, but their values may be infinite or NaN, and absent
/// keys must not show. The product again, with those values out of the way.
template <class K>
void without_masked(const ForwardBlock& b, int row, const float* p) {
  alignas(64) float v[K::kBlockWords * 256];
  const Slots seen = b.seen[row];
  for (int w = 0; w < K::kBlockWords; ++w) {
    float* to = v + w * b.width;
    for (int c = 0; c < b.width; ++c) {
      std::uint32_t word = 0;
      std::memcpy(&word, b.v + w * b.v_stride + c, 4);
      std::uint32_t keep = 0;
      for (int i = 0; i < K::kPerWord; ++i) {
        const int slot = w * K::kPerWord + i;
        if (slot >= seen.lo && slot < seen.hi) {
          keep |= K::kPerWord == 1 ? 0xffffffffU : 0xffffU << (16 * i);
        }
      }
      word &= keep;
      std::memcpy(to + c, &word, 4);
    }
  }
  const Cover c = cover<K>(b.seen + row, 1);
  multiply<K>(1, p, kBlock, v, b.width, b.o + std::int64_t{row} * b.width, b.width, c.begin, c.end, 0, b.width);
}
template <class K>
ISOTONE_INLINE bool has_nan(const float* row, int width) {
  Vec sum(0.0F);
  for (int c = 0; c < width; c += kL) {
    const Vec x = Vec::load(row + c);
    sum = sum + (x - x);  // NaN for an infinity too: rare, and the product again is the same
  }
  return any(!(sum == sum));
}

template <class K>
void forward(const ForwardBlock& b) {
  alignas(64) float s[kR][kBlock], p[kR][kBlock];
  const std::int64_t words = K::words(b.d);
  for (int r = 0; r < b.rows;) {
    const int n = next_rows(b.rows - r);
    const Cover c = cover<K>(b.seen + r, n);
    multiply<K>(n, b.q + r * words, words, b.kt, kBlock, s[0], kBlock, 0, words, c.from, c.to);
    for (int i = 0; i < n; ++i) {
      const Slots seen = b.seen[r + i];
      if (seen.lo == 0 && seen.hi == kBlock) {
        softmax_row<K, true>(s[i], b.scale, seen, c, p[i], b.m + r + i, b.l + r + i);
      } else {
        softmax_row<K, false>(s[i], b.scale, seen, c, p[i], b.m + r + i, b.l + r + i);
      }
    }
    multiply<K>(n, p[0], kBlock, b.v, b.v_stride, b.o + std::int64_t{r} * b.width, b.width, c.begin, c.end, 0, b.width);
    for (int i = 0; i < n; ++i) {
      const Slots seen = b.seen[r + i];
      if ((seen.lo > c.lo || seen.hi < c.hi || (c.lo | c.hi) % 2 != 0) &&
          has_nan<K>(b.o + std::int64_t{r + i} * b.width, b.width)) {
        without_masked<K>(b, r + i, p[i]);
      }
    }
    r += n;
  }
}

// ---- backward ----
template <class K, bool kKeys>
void backward(const BackwardBlock& b) {
  alignas(64) float s[kR][kBlock], dp[kR][kBlock], p[kR][kBlock], ds[kR][kBlock];
  const std::int64_t words = K::words(b.d);
  for (int r = 0; r < b.rows;) {
    const int n = next_rows(b.rows - r);
    const Cover c = cover<K>(b.seen + r, n);
    multiply<K>(n, b.left_s + r * words, words, b.right_s, kBlock, s[0], kBlock, 0, words, c.from, c.to);
    multiply<K>(n, b.left_p + r * words, words, b.right_p, kBlock, dp[0], kBlock, 0, words, c.from, c.to);
    for (int i = 0; i < n; ++i) {
      const Slots seen = b.seen[r + i];
      const bool whole = seen.lo <= c.from && seen.hi >= c.to;
      for (int j = c.from; j < c.to; j += kL) {
        const Vec lse = kKeys ? Vec::load(b.lse + j) : Vec(b.lse[r + i]);
        const Vec delta = kKeys ? Vec::load(b.delta + j) : Vec(b.delta[r + i]);
        const Vec x = Vec::load(s[i] + j) * Vec(b.scale) - lse;
        Vec e = select(Vec(88.0F) < x, fmath::exp_v(x), exp_small(x));
        Vec g = (e * (Vec::load(dp[i] + j) - delta)) * Vec(b.scale);
        if (!whole) {
          const auto in = Vec::in_range(j, seen.lo, seen.hi);
          e = select(in, e, Vec(0.0F));
          g = select(in, g, Vec(0.0F));
        }
        if constexpr (kKeys) {
          K::store_weights(p[i], j, e);
        }
        K::store_weights(ds[i], j, g);
      }
      if (kKeys && b.ds != nullptr) {
        K::keep_row(ds[i], c.from, c.to, b.ds, r + i);
      }
    }
    const std::int64_t at = std::int64_t{r} * b.width;
    if constexpr (kKeys) {
      multiply<K>(n, p[0], kBlock, b.rows_p, b.width, b.out_p + at, b.width, c.begin, c.end, 0, b.width);
    }
    multiply<K>(n, ds[0], kBlock, b.rows_s, b.width, b.out_s + at, b.width, c.begin, c.end, 0, b.width);
    r += n;
  }
}

/// out[row][width] = the sum over keys of ds (transposed: [words(64)][64]) times the keys' rows.
template <class K>
void product(const float* ds, const float* keys, int rows, std::int64_t width, const Slots* seen, float* out) {
  for (int r = 0; r < rows;) {
    const int n = next_rows(rows - r);
    const Cover c = cover<K>(seen + r, n);
    multiply<K, true>(n, ds + r, kBlock, keys, width, out + r * width, width, c.begin, c.end, 0, width);
    r += n;
  }
}

template <class K>
float delta(const void* d_o, const void* o, std::int64_t d) {
  Vec sum[kChainVecs];
  for (int i = 0; i < kChainVecs; ++i) {
    sum[i] = Vec(0.0F);
  }
  for (std::int64_t c = 0; c < d; c += 16) {
    for (int i = 0; i < kChainVecs; ++i) {
      sum[i] = sum[i] + K::load_values(d_o, c + i * kL, d) * K::load_values(o, c + i * kL, d);
    }
  }
  return Vec::fold_add(sum) + 0.0F;
}

// ---- joining and storing ----
void merge(int rows, std::int64_t width, const Side* sides, float* m1, float* l1, float* o1, const float* m2,
           const float* l2, const float* o2) {
  alignas(64) float a1[kBlock], a2[kBlock], m[kBlock], l[kBlock];
  for (int r = 0; r < rows; r += kL) {
    const Vec x = Vec::load(m1 + r), y = Vec::load(m2 + r);
    const Vec top = larger(x, y);
    const Vec f1 = exp_small(x - top), f2 = exp_small(y - top);
    top.store(m + r);
    f1.store(a1 + r);
    f2.store(a2 + r);
    (Vec::load(l1 + r) * f1 + Vec::load(l2 + r) * f2).store(l + r);
  }
  for (int r = 0; r < rows; ++r) {
    float* x = o1 + r * width;
    const float* y = o2 + r * width;
    const Side side = sides == nullptr ? Side::both : sides[r];
    if (side == Side::both) {
      m1[r] = m[r];
      l1[r] = l[r];
      const Vec f1(a1[r]), f2(a2[r]);
      for (std::int64_t c = 0; c < width; c += kL) {
        (Vec::load(x + c) * f1 + Vec::load(y + c) * f2).store(x + c);
      }
    } else if (side == Side::right) {
      m1[r] = m2[r];
      l1[r] = l2[r];
      std::memcpy(x, y, static_cast<std::size_t>(width) * sizeof(float));
    }
  }
}

void add(int rows, std::int64_t width, const Side* sides, float* o1, const float* o2) {
  for (int r = 0; r < rows; ++r) {
    float* x = o1 + r * width;
    const float* y = o2 + r * width;
    const Side side = sides == nullptr ? Side::both : sides[r];
    if (side == Side::both) {
      for (std::int64_t c = 0; c < width; c += kL) {
        (Vec::load(x + c) + Vec::load(y + c)).store(x + c);
      }
    } else if (side == Side::right) {
      std::memcpy(x, y, static_cast<std::size_t>(width) * sizeof(float));
    }
  }
}

template <class K>
void store(const float* o, const float* l, std::int64_t d, void* out) {
  for (std::int64_t c = 0; c < d; c += kL) {
    const Vec x = o == nullptr ? Vec(0.0F) : Vec::load(o + c);
    const Vec y = l == nullptr ? x : divide(x, Vec(*l));
    if (d - c >= kL) {
      K::store_values(out, c, c + kL, y);
    } else {
      K::store_values(out, c, d, y);
    }
  }
}

void log_sum(int rows, const float* m, const float* l, float* out) {
  for (int r = 0; r < rows; r += kL) {
    fmath::canonical(Vec::load(m + r) + fmath::log_v(Vec::load(l + r))).store(out + r);
  }
}

template <class K>
constexpr Tiles make_tiles(const char* name) {
  return {name,
          K::kType == DType::f32,
          K::words,
          pack_left<K>,
          pack_transposed<K>,
          pack_rows<K>,
          forward<K>,
          backward<K, false>,
          backward<K, true>,
          product<K>,
          merge,
          add,
          store<K>,
          log_sum,
          delta<K>};
}

template <bool kNative>
const Tiles* make_table() {
  static constexpr Tiles table[3] = {make_tiles<Kind<DType::f32, kNative>>("f32"),
                                     make_tiles<Kind<DType::bf16, kNative>>("bf16"),
                                     make_tiles<Kind<DType::f16, kNative>>("f16")};
  return table;
}

}  // namespace
}  // namespace isotone::cpu::attention
