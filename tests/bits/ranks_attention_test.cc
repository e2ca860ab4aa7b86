// Attention shared out among ranks: by heads, by queries, by keys (states that wait for their siblings), and the
// gradients of keys and values by blocks of queries. All have the whole's bits.
#include <gtest/gtest.h>

#include <bit>

#include "backends/cpu/kernels/attention.h"
#include "base/kernel_log.h"
#include "tests/bits/ranks.h"

namespace isotone::bits {
namespace {

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
  const std::int64_t tokens = 600, blocks = 10, rows = kG * tokens * kHeads;  // the last block is short
  const Inputs in = inputs(tokens, t);
  const auto [o, lse] = forward(in);
  const Bytes whole_o = o.to_bytes();
  const Floats whole_lse = lse.to_floats();
  const Bytes q = in.q.to_bytes(), k = in.k.to_bytes(), v = in.v.to_bytes();
  // The keys as they lie, [page of one sequence, slot, kv head, width], as a cache of two pages that hold a sequence
  // each.
  std::vector<std::int32_t> table, positions;
  const std::int64_t page = blocks * 64;
  const auto padded = [&](const Bytes& x) {
    const std::size_t have = x.size() / kG, row = have / static_cast<std::size_t>(tokens);
    Bytes out(kG * row * static_cast<std::size_t>(page));
    for (std::size_t g = 0; g < kG; ++g) {
      std::copy_n(x.begin() + static_cast<std::ptrdiff_t>(g * have), have,
                  out.begin() + static_cast<std::ptrdiff_t>(g * row * static_cast<std::size_t>(page)));
    }
    return out;
  };
  const Bytes k_pages = padded(k), v_pages = padded(v);
  for (std::int32_t g = 0; g < kG; ++g) {
    table.push_back(g);
    for (std::int32_t i = 0; i < tokens; ++i) {
      positions.push_back(i);
    }
  }
  cpu::PagedAttention a;
  a.b = kG;
  a.t = tokens;
  a.heads = kHeads;
  a.kv_heads = kKvHeads;
  a.d = kWidth;
  a.dtype = t;
  a.scale = static_cast<float>(kScale);
  a.q = {q.data(), tokens * kHeads * kWidth, kHeads * kWidth, kWidth};
  a.k_pages = k_pages.data();
  a.v_pages = v_pages.data();
  a.pages = kG;
  a.page = page;
  a.page_stride = page * kKvHeads * kWidth;
  a.page_head_stride = kWidth;
  a.page_slot_stride = kKvHeads * kWidth;
  a.table = table.data();
  a.table_stride = 1;
  a.positions = positions.data();
  // A node's states travel as one list: m and l of every row, then o.
  const auto state_of = [&](Floats& f) { return cpu::AttentionState{f.data(), f.data() + rows, f.data() + 2 * rows}; };
  const auto join = [&](Floats left, Floats right) {
    cpu::merge_attention_states(rows, kWidth, state_of(left), state_of(right));
    return left;
  };
  for (const int n : {1, 2, 3, 4, 8}) {
    dist::run_in_process(n, [&](Communicator& r) {
      // One tree serves every row: blocks that a row does not see are empty states, which merging leaves out.
      const ReductionTree tree(TreeKind::prefix, blocks);
      dist::FloatPartials mine(tree);
      for (const Span node : tree.cover(tree.split(n)[static_cast<std::size_t>(r.rank())])) {
        const int level = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(node.size() - 1)));
        Floats state(static_cast<std::size_t>(rows * (2 + kWidth)));
        cpu::paged_attention_node(a, level, node.begin >> level, state_of(state));
        mine.add(node, std::move(state));
      }
      Floats all = dist::tree_all_reduce(r, std::move(mine), join);
      Bytes mine_o(whole_o.size());
      Floats mine_lse(whole_lse.size());
      cpu::PagedAttention end = a;
      end.o = {mine_o.data(), tokens * kHeads * kWidth, kHeads * kWidth, kWidth};
      end.lse = mine_lse.data();
      cpu::finish_attention(end, state_of(all));
      EXPECT_TRUE(mine_o == whole_o) << n << " ranks, rank " << r.rank();
      EXPECT_EQ(mine_lse, whole_lse) << n << " ranks, rank " << r.rank();
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
