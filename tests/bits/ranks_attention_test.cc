// Attention shared out among ranks: by heads, by queries, by keys (states that wait for their siblings), and the
// gradients of keys and values by blocks of queries. All have the whole's bits.
#include <gtest/gtest.h>

#include "base/kernel_log.h"
#include "base/parallel.h"
#include "ops/support/attention_reference.h"
#include "tests/bits/ranks.h"

namespace isotone::bits {
namespace {

using dist::Communicator;
using dist::ReductionTree;
using dist::Span;
using dist::TreeKind;

constexpr std::int64_t kG = 2, kHeads = 6, kKvHeads = 2, kGroup = kHeads / kKvHeads, kWidth = 64;
constexpr double kScale = 0.125;

struct Inputs {
  std::int64_t tokens;
  Tensor q, k, v, d_o, doc_start;
};

Inputs inputs(std::int64_t tokens, DType t) {
  const std::vector<std::int32_t> starts(static_cast<std::size_t>(kG * tokens), 0);
  return {tokens,
          random_tensor({kG, tokens, kHeads, kWidth}, t, 1),
          random_tensor({kG, tokens, kKvHeads, kWidth}, t, 2),
          random_tensor({kG, tokens, kKvHeads, kWidth}, t, 3),
          random_tensor({kG, tokens, kHeads, kWidth}, t, 4),
          Tensor::from(starts, {kG, tokens})};
}

Tensor heads(const Tensor& x, Span s) {
  return ops::slice_axis(x, 2, s.begin, s.end);
}

/// {o, lse} of the whole.
std::pair<Tensor, Tensor> forward(const Inputs& in) {
  const Values both = ops::attention(in.q, in.k, in.v, in.doc_start, kScale);
  const Tensor o = both[0], lse = both[1];
  eval({o, lse});
  return {o, lse};
}

/// Tensors of all ranks joined along `axis`, in `dtype`.
Bytes joined(Communicator& r, const Tensor& mine, std::int64_t axis, DType dtype) {
  Ints order{axis}, back;
  Shape shape;
  for (int i = 0; i < mine.rank(); ++i) {
    if (i != axis) {
      order.push_back(i);
      shape.push_back(mine.dim(i));
    }
    back.push_back(i < axis ? i + 1 : i == axis ? 0 : i);
  }
  const Floats all = dist::all_gather(r, Tensor(ops::transpose(mine, order)).to_floats());
  shape.insert(shape.begin(), static_cast<std::int64_t>(all.size()) / Type{DType::f32, shape}.elements());
  return Tensor(ops::cast(ops::transpose(Tensor::from(all, shape), back), dtype)).to_bytes();
}

class RanksAttention : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    set_default_device(cpu::make_cpu_device());
    set_kernel_log(true);
  }
  void TearDown() override {
    bool ran = false;
    for (const auto& [name, count] : kernel_log()) {
      ran = ran || name.starts_with("attention");
      EXPECT_FALSE(name.starts_with("reference.attention")) << name;
    }
    EXPECT_TRUE(ran) << "the production kernel did not run";
    set_kernel_log(false);
  }
};

TEST_P(RanksAttention, ByHeads) {
  const Inputs in = inputs(200, GetParam());
  const auto [o, lse] = forward(in);
  const Values gradients = ops::attention_grad({in.q, in.k, in.v, in.doc_start, o, lse, in.d_o}, kScale, true, 0);
  // Whole groups: a key head and the query heads that read it stay together.
  const auto fits = [](int n) { return n <= 2; };
  for (const int n : {1, 2}) {
    ASSERT_TRUE(fits(n));
    dist::run_in_process(n, [&](Communicator& r) {
      const Span kv = ReductionTree(TreeKind::element, kKvHeads).split(n)[static_cast<std::size_t>(r.rank())];
      const Span h{kv.begin * kGroup, kv.end * kGroup};
      const Values mine = ops::attention(heads(in.q, h), heads(in.k, kv), heads(in.v, kv), in.doc_start, kScale);
      EXPECT_TRUE(joined(r, mine[0], 2, GetParam()) == o.to_bytes()) << n;
      const Values d = ops::attention_grad(
          {heads(in.q, h), heads(in.k, kv), heads(in.v, kv), in.doc_start, mine[0], mine[1], heads(in.d_o, h)}, kScale,
          true, 0);
      for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_TRUE(joined(r, d[i], 2, GetParam()) == Tensor(gradients[i]).to_bytes()) << n << " ranks, gradient " << i;
      }
    });
  }
  // More ranks than key heads: each has some query heads of a group and a copy of the key head.
  on_ranks([](int n) { return n <= 6; },
           [&](Communicator& r) {
             const Span mine =
                 ReductionTree(TreeKind::element, kHeads).split(r.size())[static_cast<std::size_t>(r.rank())];
             Values parts;
             for (std::int64_t h = mine.begin; h < mine.end; ++h) {
               const Span kv{h / kGroup, h / kGroup + 1};
               parts.push_back(
                   ops::attention(heads(in.q, {h, h + 1}), heads(in.k, kv), heads(in.v, kv), in.doc_start, kScale)[0]);
             }
             return joined(r, ops::concat(parts, 2), 2, GetParam());
           },
           o.to_bytes(), "query heads");
}

TEST_P(RanksAttention, ByQueriesWithAllKeys) {
  const std::int64_t tokens = 640;
  const Inputs in = inputs(tokens, GetParam());
  const Bytes whole = forward(in).first.to_bytes();
  // Pages of 64 keys, [page, kv head, slot, width], page p of sequence g at g * 10 + p.
  const auto pages = [&](const Tensor& x) {
    return Tensor(
        ops::reshape(ops::transpose(ops::reshape(x, {kG, tokens / 64, 64, kKvHeads, kWidth}), {0, 1, 3, 2, 4}),
                     {kG * tokens / 64, kKvHeads, 64, kWidth}));
  };
  const Tensor k = pages(in.k), v = pages(in.v);
  eval({k, v});
  std::vector<std::int32_t> table;
  for (std::int32_t i = 0; i < kG * tokens / 64; ++i) {
    table.push_back(i);
  }
  on_ranks(
      any_count,
      [&](Communicator& r) {
        const Span s = ReductionTree(TreeKind::prefix, tokens / 64).split(r.size())[static_cast<std::size_t>(r.rank())];
        std::vector<std::int32_t> positions;
        for (std::int64_t i = 0; i < kG; ++i) {
          for (std::int64_t p = s.begin * 64; p < s.end * 64; ++p) {
            positions.push_back(static_cast<std::int32_t>(p));
          }
        }
        const Tensor o = ops::paged_attention(ops::slice_axis(in.q, 1, s.begin * 64, s.end * 64), k, v,
                                              Tensor::from(table, {kG, tokens / 64}),
                                              Tensor::from(positions, {kG, s.size() * 64}), kScale);
        return joined(r, o, 1, GetParam());
      },
      whole, "queries");
}

TEST_P(RanksAttention, ByKeysWithStatesThatWaitForTheirSiblings) {
  const DType t = GetParam();
  const std::int64_t tokens = 600;  // ten blocks, the last one short
  const Inputs in = inputs(tokens, t);
  const auto [o, lse] = forward(in);
  const Bytes q = in.q.to_bytes(), k = in.k.to_bytes(), v = in.v.to_bytes();
  ops::AttentionForward a;
  a.shape = {.g = kG,
             .t = tokens,
             .heads = kHeads,
             .kv_heads = kKvHeads,
             .d = kWidth,
             .dtype = t,
             .scale = static_cast<float>(kScale)};
  const auto strided = [&](const Bytes& b, std::int64_t h) {
    return ops::AttentionInput{b.data(), tokens * h * kWidth, h * kWidth, kWidth};
  };
  a.q = strided(q, kHeads);
  a.k = strided(k, kKvHeads);
  a.v = strided(v, kKvHeads);
  const Floats whole_o = o.to_floats(), whole_lse = lse.to_floats();
  const auto pack = [](const ops::AttentionPartial& p) {
    Floats f{p.m, p.l};
    f.insert(f.end(), p.o.begin(), p.o.end());
    return f;
  };
  const auto unpack = [](const Floats& f) { return ops::AttentionPartial{f[0], f[1], {f.begin() + 2, f.end()}}; };
  const auto join = [&](Floats x, Floats y) {
    const FlushSubnormals flush;
    return pack(ops::merge_attention(unpack(x), unpack(y)));
  };
  for (const int n : {1, 2, 3, 4, 8}) {
    dist::run_in_process(n, [&](Communicator& r) {
      for (const std::int64_t i : {0, 63, 64, 300, 511, 599}) {
        const std::int64_t h = i % kHeads, g = i % kG;
        // The row sees keys 0 to i: so many blocks, of which this rank has some, none or all.
        const ReductionTree tree(TreeKind::prefix, i / 64 + 1);
        const Span all =
            ReductionTree(TreeKind::prefix, (tokens + 63) / 64).split(n)[static_cast<std::size_t>(r.rank())];
        dist::FloatPartials mine(tree);
        for (std::int64_t b = all.begin; b < std::min(all.end, tree.length()); ++b) {
          mine.add({b, b + 1}, pack(ops::attention_block_reference(a, g, i, h, b)));
        }
        const ops::AttentionPartial state = unpack(dist::tree_all_reduce(r, mine, join));
        const auto row = static_cast<std::size_t>((g * tokens + i) * kHeads + h);
        Floats row_o;
        for (const float x : state.o) {
          row_o.push_back(x / state.l);
        }
        const std::span expected = std::span(whole_o).subspan(row * kWidth, kWidth);
        EXPECT_TRUE(rounded(row_o, {kWidth}, t) == rounded({expected.begin(), expected.end()}, {kWidth}, t))
            << n << " ranks, token " << i;
        EXPECT_EQ(Tensor(Tensor::scalar(state.m) + Tensor(ops::log(Tensor::scalar(state.l)))).item(), whole_lse[row]);
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, RanksAttention, testing::Values(DType::f32, DType::bf16),
                         [](const auto& p) { return std::string(dtype_name(p.param)); });

/// In f32, where a rank's partial gradients leave the kernel unrounded.
TEST(RanksAttentionGradient, KeysAndValuesByBlocksOfQueries) {
  set_default_device(cpu::make_cpu_device());
  const std::int64_t tokens = 576, blocks = tokens / 64;  // nine blocks: no power of two
  const Inputs in = inputs(tokens, DType::f32);
  const auto [o, lse] = forward(in);
  const Values whole = ops::attention_grad({in.q, in.k, in.v, in.doc_start, o, lse, in.d_o}, kScale, true, 0);
  const ReductionTree tree(TreeKind::prefix, blocks);
  for (const std::size_t which : {std::size_t{1}, std::size_t{2}}) {
    on_ranks(
        any_count,
        [&](Communicator& r) {
          Values key_heads;
          for (std::int64_t hk = 0; hk < kKvHeads; ++hk) {
            dist::FloatPartials by_head(ReductionTree(TreeKind::element, kGroup));
            for (std::int64_t j = 0; j < kGroup; ++j) {
              const Span h{hk * kGroup + j, hk * kGroup + j + 1}, kv{hk, hk + 1};
              by_head.add({j, j + 1}, reduce_nodes(r, tree, [&](Span s) {
                            // Queries outside the node give +0, which no sum notices.
                            const Value d_o = ops::pad(ops::slice_axis(heads(in.d_o, h), 1, s.begin * 64, s.end * 64),
                                                       {0, s.begin * 64, 0, 0}, {0, tokens - s.end * 64, 0, 0});
                            return ops::attention_grad({heads(in.q, h), heads(in.k, kv), heads(in.v, kv), in.doc_start,
                                                        heads(o, h), heads(lse, h), d_o},
                                                       kScale, true, 0)[which];
                          }));
            }
            by_head.merge(dist::add_floats);
            key_heads.push_back(Tensor::from(by_head.root(), {kG, tokens, 1, kWidth}));
          }
          return Tensor(ops::concat(key_heads, 2)).to_bytes();
        },
        Tensor(whole[which]).to_bytes(), which == 1 ? "dk" : "dv");
  }
}

}  // namespace
}  // namespace isotone::bits
