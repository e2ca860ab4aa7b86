// Reductions against the plain reduction of the contract, along the last axis and across columns; scans and sorts; the
// rows of embeddings and their gradient.
#include "backends/cpu/kernels/reduce.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "backends/cpu/kernels/embedding.h"
#include "backends/cpu/kernels/vec_test_support.h"
#include "base/error.h"
#include "base/fmath.h"

namespace isotone::cpu::test {
namespace {

float reference(ReduceOp op, std::int64_t n, const std::function<float(std::int64_t)>& x) {
  const auto count = static_cast<float>(n);
  float high = -INFINITY, low = INFINITY;
  bool nan = false;
  for (std::int64_t i = 0; i < n; ++i) {
    high = x(i) > high ? x(i) : high;
    low = x(i) < low ? x(i) : low;
    nan = nan || x(i) != x(i);
  }
  high = nan ? NAN : high + 0.0F;
  low = nan ? NAN : low + 0.0F;
  switch (op) {
    case ReduceOp::sum:
      return reference_sum(n, x);
    case ReduceOp::mean:
      return reference_sum(n, x) / count;
    case ReduceOp::max:
      return high;
    case ReduceOp::min:
      return low;
    case ReduceOp::var: {
      const float mu = reference_sum(n, x) / count;
      return reference_sum(n, [&](std::int64_t i) { return (x(i) - mu) * (x(i) - mu); }) / count;
    }
    case ReduceOp::logsumexp:
      return high == -INFINITY
                 ? high
                 : high + fmath::log(reference_sum(n, [&](std::int64_t i) { return fmath::exp(x(i) - high); }));
  }
  return 0;
}

TEST(Reduce, EveryOpAlongAndAcross) {
  struct Shape {
    std::int64_t outer, n, inner;
  };
  for (const DType t : kFloats) {
    for (const Shape s : {Shape{70, 1, 1}, Shape{5, 37, 1}, Shape{3, 576, 1}, Shape{2, 1000, 1}, Shape{2, 1536, 1},
                          Shape{3, 4096, 1}, Shape{1, 49152, 1}, Shape{2, 1, 19}, Shape{2, 300, 37}, Shape{1, 1000, 3},
                          Shape{3, 576, 64}, Shape{2, 17, 130}}) {
      Data x = make_data(t, s.outer * s.n * s.inner, 1);
      if (s.n == 37 || s.n == 300) {
        x.wide[5] = NAN;
        x.wide[static_cast<std::size_t>(s.n * s.inner + 3)] = INFINITY;
        x.stored = store_all(t, x.wide);
      }
      for (int op = 0; op < kReduceOps; ++op) {
        std::vector<float> y;
        {
          const FlushSubnormals flush;
          for (std::int64_t o = 0; o < s.outer * s.inner; ++o) {
            y.push_back(reference(static_cast<ReduceOp>(op), s.n, [&](std::int64_t i) {
              return x.wide[static_cast<std::size_t>((o / s.inner * s.n + i) * s.inner + o % s.inner)];
            }));
          }
        }
        expect_everywhere(joined({store_all(t, y), store_all(DType::f32, y)}),
                          "reduce " + std::to_string(op) + " " + std::string(dtype_name(t)) +
                              " n=" + std::to_string(s.n) + " inner=" + std::to_string(s.inner),
                          [&] {
                            Bytes a(y.size() * unit_bytes(t));
                            Bytes b(y.size() * 4);
                            reduce(static_cast<ReduceOp>(op), t, a.data(), t, x.get(), s.outer, s.n, s.inner);
                            reduce(static_cast<ReduceOp>(op), DType::f32, b.data(), t, x.get(), s.outer, s.n, s.inner);
                            return joined({a, b});
                          });
      }
    }
  }
}

// The comparison above must be able to fail: other orders of the same sums give other bits.
TEST(Reduce, OtherTreesGiveOtherBits) {
  const std::int64_t n = 1000;
  int chains8 = 0, cut_without_rounding = 0, left_fold = 0;
  for (unsigned seed = 0; seed < 50; ++seed) {
    const Data x = make_data(DType::f32, n, seed);
    float got = 0;
    reduce(ReduceOp::sum, DType::f32, &got, DType::f32, x.get(), 1, n, 1);
    const auto leaf = [&](std::int64_t begin, std::int64_t length, std::int64_t chains) {
      std::vector<float> c(static_cast<std::size_t>(chains), 0.0F);
      for (std::int64_t i = 0; i < length; ++i) {
        c[static_cast<std::size_t>(i % chains)] += x.wide[static_cast<std::size_t>(begin + i)];
      }
      for (std::size_t half = c.size() / 2; half > 0; half /= 2) {
        for (std::size_t i = 0; i < half; ++i) {
          c[i] += c[i + half];
        }
      }
      return c[0];
    };
    const auto add = [](float a, float b) { return a + b; };
    chains8 += got != axis_tree(
                          0, n, [&](std::int64_t b, std::int64_t k) { return leaf(b, k, 8); }, add);
    cut_without_rounding +=
        got != ((leaf(0, 250, 16) + leaf(250, 250, 16)) + (leaf(500, 250, 16) + leaf(750, 250, 16)));
    left_fold += got != ((leaf(0, 256, 16) + leaf(256, 256, 16)) + leaf(512, 256, 16)) + leaf(768, 232, 16);
    EXPECT_EQ(bits_of(got), bits_of(axis_tree(
                                0, n, [&](std::int64_t b, std::int64_t k) { return leaf(b, k, 16); }, add)));
  }
  EXPECT_GT(chains8, 10);
  EXPECT_GT(cut_without_rounding, 10);
  EXPECT_GT(left_fold, 10);
}

TEST(Reduce, ArgmaxTakesTheLowest) {
  for (const std::int64_t n : {3, 64, 1000}) {
    for (const std::int64_t inner : {1, 5}) {
      const std::int64_t outer = 4;
      Data x = make_data(DType::bf16, outer * n * inner, 2, 0.01F);
      for (float& v : x.wide) {
        v = round_to(DType::bf16, std::round(v * 200.0F));  // many equals
      }
      x.wide[static_cast<std::size_t>((n - 1) * inner)] = NAN;
      x.wide[static_cast<std::size_t>((n - 2) * inner)] = NAN;
      x.stored = store_all(DType::bf16, x.wide);
      std::vector<std::int32_t> high, low;
      for (std::int64_t o = 0; o < outer * inner; ++o) {
        std::int64_t h = 0, l = 0;
        const auto at = [&](std::int64_t i) {
          return x.wide[static_cast<std::size_t>((o / inner * n + i) * inner + o % inner)];
        };
        for (std::int64_t i = 1; i < n; ++i) {
          h = at(h) == at(h) && (at(i) > at(h) || at(i) != at(i)) ? i : h;
          l = at(l) == at(l) && (at(i) < at(l) || at(i) != at(i)) ? i : l;
        }
        high.push_back(static_cast<std::int32_t>(h));
        low.push_back(static_cast<std::int32_t>(l));
      }
      Bytes want(high.size() * 8);
      std::memcpy(want.data(), high.data(), high.size() * 4);
      std::memcpy(want.data() + high.size() * 4, low.data(), high.size() * 4);
      expect_everywhere(want, "argmax", [&] {
        Bytes y(want.size());
        argmax(DType::bf16, reinterpret_cast<std::int32_t*>(y.data()), x.get(), outer, n, inner);
        argmin(DType::bf16, reinterpret_cast<std::int32_t*>(y.data()) + high.size(), x.get(), outer, n, inner);
        return y;
      });
    }
  }
  const std::int64_t integers[] = {3, 9, 9, -4};
  std::int32_t y = 0;
  argmax(DType::i64, &y, integers, 1, 4, 1);
  EXPECT_EQ(y, 1);
}

TEST(Reduce, CumsumSortTopk) {
  const float x[] = {1, 3, 2, NAN, 3, -1};
  float sums[6];
  cumsum(DType::f32, sums, x, 1, 3, 2);
  EXPECT_EQ(sums[2], 3.0F);
  EXPECT_EQ(sums[4], 6.0F);
  cumsum(DType::f32, sums, x, 1, 3, 1, true);
  EXPECT_EQ(sums[0], 6.0F);
  EXPECT_EQ(sums[2], 2.0F);
  float values[6];
  std::int32_t at[6];
  sort(DType::f32, values, at, x, 1, 6, 1, true);
  EXPECT_EQ(std::vector<std::int32_t>(at, at + 6), (std::vector<std::int32_t>{1, 4, 2, 0, 5, 3}));
  sort(DType::f32, values, at, x, 1, 6, 1, false);
  EXPECT_EQ(std::vector<std::int32_t>(at, at + 6), (std::vector<std::int32_t>{5, 0, 2, 1, 4, 3}));
  EXPECT_TRUE(values[0] == -1.0F && values[5] != values[5]);
  topk(DType::f32, values, at, x, 1, 6, 2);
  EXPECT_EQ(at[0], 1);
  EXPECT_EQ(at[1], 4);
  EXPECT_THROW(topk(DType::f32, values, at, x, 1, 6, 7), Error);
}

TEST(Embedding, GathersAndDequantises) {
  const std::vector<std::int32_t> ids = {2, 0, 2};
  const Data table = make_data(DType::f16, 3 * 33, 3);
  std::vector<float> y(99);
  embedding(DType::f32, y.data(), DType::f16, table.get(), ids, 33);
  EXPECT_EQ(y[0], table.wide[66]);
  EXPECT_EQ(y[33 + 5], table.wide[5]);
  // One block of each kind: d = 0.5, m = 1.
  Bytes q8(34), q40(18), q41(20);
  const std::uint16_t half = f16(0.5F).bits, one = f16(1.0F).bits;
  std::memcpy(q8.data(), &half, 2);
  std::memcpy(q40.data(), &half, 2);
  std::memcpy(q41.data(), &half, 2);
  std::memcpy(q41.data() + 2, &one, 2);
  q8[2 + 31] = static_cast<std::uint8_t>(-7);
  q40[2 + 3] = 0xf1;
  q41[4 + 3] = 0xf1;
  float row[32];
  const std::vector<std::int32_t> first = {0};
  embedding(DType::f32, row, DType::q8_0, q8.data(), first, 32);
  EXPECT_EQ(row[31], -3.5F);
  embedding(DType::f32, row, DType::q4_0, q40.data(), first, 32);
  EXPECT_EQ(row[3], -3.5F);
  EXPECT_EQ(row[19], 3.5F);
  embedding(DType::f32, row, DType::q4_1, q41.data(), first, 32);
  EXPECT_EQ(row[3], 1.5F);
  EXPECT_EQ(row[19], 8.5F);
  EXPECT_EQ(first_invalid_id(ids, 3), -1);
  EXPECT_EQ(first_invalid_id(ids, 2), 0);
}

TEST(Embedding, GradientIsTheTreeOverPositions) {
  for (const DType t : kFloats) {
    for (const std::int64_t grains : {1, 3, 5}) {
      const std::int64_t tokens = 700, vocabulary = 40, n = 19;
      const Data dy = make_data(t, grains * tokens * n, 4);
      std::mt19937 random(5);
      std::vector<std::int32_t> ids;
      for (std::int64_t i = 0; i < grains * tokens; ++i) {
        ids.push_back(static_cast<std::int32_t>(random() % (i < tokens ? 30 : 37)));  // some are in later grains only
      }
      std::vector<float> want;
      const auto add = [](float a, float b) { return a + b; };
      for (std::int64_t id = 0; id < vocabulary; ++id) {
        for (std::int64_t j = 0; j < n; ++j) {
          want.push_back(element_tree(
              0, grains,
              [&](std::int64_t g) {
                return axis_tree(
                    0, tokens,
                    [&](std::int64_t begin, std::int64_t length) {
                      float sum = 0.0F;
                      for (std::int64_t p = g * tokens + begin; p < g * tokens + begin + length; ++p) {
                        sum += ids[static_cast<std::size_t>(p)] == id ? dy.wide[static_cast<std::size_t>(p * n + j)]
                                                                      : 0.0F;
                      }
                      return sum + 0.0F;
                    },
                    add);
              },
              add));
        }
      }
      expect_everywhere(store_all(DType::f32, want), "embedding_grad", [&] {
        std::vector<float> y(want.size(), 7.0F);
        embedding_grad(t, y.data(), dy.get(), ids, grains, vocabulary, n);
        return store_all(DType::f32, y);
      });
    }
  }
}

TEST(NonFinite, FindsTheFirst) {
  for (const DType t : kFloats) {
    Data x = make_data(t, 300007, 6);
    EXPECT_EQ(first_non_finite(t, x.get(), 300007), -1);
    x.wide[299999] = NAN;
    x.stored = store_all(t, x.wide);
    EXPECT_EQ(first_non_finite(t, x.get(), 300007), 299999);
    EXPECT_EQ(first_non_finite(t, x.get(), 299999), -1);
    x.wide[1234] = -INFINITY;
    x.stored = store_all(t, x.wide);
    EXPECT_EQ(first_non_finite(t, x.get(), 300007), 1234);
  }
}

}  // namespace
}  // namespace isotone::cpu::test
