// Sharded forms give the bits of the whole: ranks own parts of a reduced axis, cut at nodes of its tree, run the
// production kernels on them and join along the tree. An order that ignores the tree does not.
#include <gtest/gtest.h>

#include "base/kernel_log.h"
#include "tests/bits/ranks.h"

namespace isotone::bits {
namespace {

class Ranks : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    set_default_device(cpu::make_cpu_device());
    set_kernel_log(true);
  }
  void TearDown() override { set_kernel_log(false); }
  static DType dtype() { return GetParam(); }
  static void expect_kernel(const std::string& prefix) {
    bool ran = false;
    for (const auto& [name, count] : kernel_log()) {
      ran = ran || name.starts_with(prefix);
    }
    EXPECT_TRUE(ran) << "no kernel named " << prefix << "... ran";
  }
};

/// x [m, k] times w [n, k], k shared out among the ranks.
Floats sharded_contraction(Communicator& r, const Tensor& x, const Tensor& w) {
  return reduce_nodes(r, ReductionTree(TreeKind::axis, x.dim(1)), [&](Span s) {
    return ops::linear(ops::slice_axis(x, 1, s.begin, s.end), ops::slice_axis(w, 1, s.begin, s.end), DType::f32);
  });
}

TEST_P(Ranks, ContractionOverItsReducedAxis) {
  for (const std::int64_t k : {1000, 1536, 4096, 18944}) {
    const Tensor x = random_tensor({5, k}, dtype(), 1), w = random_tensor({70, k}, dtype(), 2);
    const Bytes whole = Tensor(ops::linear(x, w)).to_bytes();
    on_ranks([&](int n) { return n <= static_cast<int>(ReductionTree(TreeKind::axis, k).borders().size()) - 1; },
             [&](Communicator& r) {
               return rounded(sharded_contraction(r, x, w), {5, 70}, dtype());
             },
             whole, "k = " + std::to_string(k));
  }
  expect_kernel("contract." + std::string(dtype_name(dtype())));
}

TEST_P(Ranks, ContractionOverItsOutputs) {
  const Tensor x = random_tensor({5, 576}, dtype(), 1), w = random_tensor({1000, 576}, dtype(), 2);
  const Bytes whole = Tensor(ops::linear(x, w)).to_bytes();
  on_ranks(
      any_count,
      [&](Communicator& r) {
        // Outputs are cut anywhere: 1000 rows do not divide by 3.
        const Span mine = ReductionTree(TreeKind::element, 1000).split(r.size())[static_cast<std::size_t>(r.rank())];
        const Tensor part = ops::linear(x, ops::slice_axis(w, 0, mine.begin, mine.end));
        return columns_together(r, part, 5, dtype());
      },
      whole, "outputs");
}

TEST_P(Ranks, WeightGradientOverGrainsAndTokens) {
  for (const std::int64_t grains : {3, 5, 6, 8}) {
    const Tensor g = random_tensor({grains, 96, 33}, dtype(), 3), x = random_tensor({grains, 96, 40}, dtype(), 4);
    const Bytes whole = Tensor(ops::contract(g, x, "gto,gti->oi", DType::f32)).to_bytes();
    on_ranks(
        any_count,
        [&](Communicator& r) {
          const Floats sum = reduce_nodes(r, ReductionTree(TreeKind::element, grains), [&](Span s) {
            return ops::contract(ops::slice_axis(g, 0, s.begin, s.end), ops::slice_axis(x, 0, s.begin, s.end),
                                 "gto,gti->oi", DType::f32);
          });
          return rounded(sum, {33, 40}, DType::f32);
        },
        whole, std::to_string(grains) + " grains");
  }
  // Tokens shared out: per grain along the axis tree, then over the grains.
  const std::int64_t grains = 3, tokens = 2048;
  const Tensor g = random_tensor({grains, tokens, 17}, dtype(), 5), x = random_tensor({grains, tokens, 20}, dtype(), 6);
  const Bytes whole = Tensor(ops::contract(g, x, "gto,gti->oi", DType::f32)).to_bytes();
  on_ranks(
      any_count,
      [&](Communicator& r) {
        dist::FloatPartials by_grain(ReductionTree(TreeKind::element, grains));
        for (std::int64_t i = 0; i < grains; ++i) {
          by_grain.add({i, i + 1}, reduce_nodes(r, ReductionTree(TreeKind::axis, tokens), [&](Span s) {
                         const auto part = [&](const Tensor& t) {
                           return ops::slice_axis(ops::slice_axis(t, 0, i, i + 1), 1, s.begin, s.end);
                         };
                         return ops::contract(part(g), part(x), "gto,gti->oi", DType::f32);
                       }));
        }
        by_grain.merge(dist::add_floats);
        return rounded(by_grain.root(), {17, 20}, DType::f32);
      },
      whole, "tokens");
}

TEST_P(Ranks, RmsNormOverFeatures) {
  constexpr double kEps = 1e-5;
  for (const std::int64_t n : {1536, 4096, 18944}) {
    const std::int64_t rows = 3;
    const Tensor x = random_tensor({rows, n}, dtype(), 1), w = random_tensor({n}, DType::f32, 2),
                 dy = random_tensor({rows, n}, dtype(), 3);
    const Bytes whole = Tensor(ops::rms_norm(x, w, kEps)).to_bytes();
    const Bytes whole_dx = Tensor(ops::rms_norm_grad(x, w, dy, kEps)[0]).to_bytes();
    const ReductionTree tree(TreeKind::axis, n);
    const auto mine = [&](Communicator& r, const Tensor& t) {
      const Span s = tree.split(r.size())[static_cast<std::size_t>(r.rank())];
      return Tensor(ops::cast(ops::slice_axis(t, -1, s.begin, s.end), DType::f32));
    };
    const auto over_n = [&](Communicator& r, const auto& product) {
      const Floats sum = reduce_nodes(r, tree, [&](Span s) { return ops::sum(product(s), {-1}, true); });
      return Tensor(ops::div(Tensor::from(sum, {rows, 1}), ops::full({}, static_cast<double>(n))));
    };
    const auto scale = [&](Communicator& r) {
      const Tensor mean = over_n(r, [&](Span s) {
        const Tensor part = ops::cast(ops::slice_axis(x, 1, s.begin, s.end), DType::f32);
        return part * part;
      });
      return Tensor(ops::rsqrt(mean + Tensor::scalar(kEps)));
    };
    on_ranks(
        any_count,
        [&](Communicator& r) {
          const Tensor y = (mine(r, x) * scale(r)) * mine(r, w);
          return columns_together(r, ops::cast(y, dtype()), rows, dtype());
        },
        whole, "rms_norm of " + std::to_string(n));
    on_ranks(
        any_count,
        [&](Communicator& r) {
          const Tensor s = scale(r);
          const Tensor mean = over_n(r, [&](Span at) {
            const auto part = [&](const Tensor& t) {
              return Tensor(ops::cast(ops::slice_axis(t, -1, at.begin, at.end), DType::f32));
            };
            return (part(dy) * part(w)) * part(x);
          });
          const Tensor dx = (mine(r, dy) * mine(r, w)) * s - mine(r, x) * (mean * ((s * s) * s));
          return columns_together(r, ops::cast(dx, dtype()), rows, dtype());
        },
        whole_dx, "rms_norm_grad of " + std::to_string(n));
  }
}

TEST_P(Ranks, CrossEntropyOverTheVocabulary) {
  const std::int64_t rows = 4, vocab = 4864;
  const Tensor logits = random_tensor({rows, vocab}, dtype(), 1);
  const std::vector<std::int32_t> ids{7, 4800, -1, 1300};
  const Tensor targets = Tensor::from(ids, {rows});
  const Values both = ops::cross_entropy(logits, targets);
  const Tensor dloss = random_tensor({rows}, DType::f32, 2);
  const Bytes whole = Tensor(both[0]).to_bytes();
  const Bytes whole_gradient = Tensor(ops::cross_entropy_grad(logits, both[1], targets, dloss)).to_bytes();
  const ReductionTree tree(TreeKind::axis, vocab);

  const auto span = [&](Communicator& r) { return tree.split(r.size())[static_cast<std::size_t>(r.rank())]; };
  // {the maximum, log of the sum of exponentials} of all ranks.
  const auto statistics = [&](Communicator& r) {
    const Span s = span(r);
    const Tensor part = ops::cast(ops::slice_axis(logits, 1, s.begin, s.end), DType::f32);
    const Tensor m = Tensor::from(dist::max_all_reduce(r, Tensor(ops::max(part, {-1}, true)).to_floats()), {rows, 1});
    const Floats l = reduce_nodes(r, tree, [&](Span node) {
      return ops::sum(ops::exp(ops::sub(ops::cast(ops::slice_axis(logits, 1, node.begin, node.end), DType::f32), m)),
                      {-1}, true);
    });
    return std::pair(m, Tensor(ops::log(Tensor::from(l, {rows, 1}))));
  };
  on_ranks(
      any_count,
      [&](Communicator& r) {
        const Span s = span(r);
        const std::vector<float> mine = Tensor(ops::slice_axis(logits, 1, s.begin, s.end)).to_floats();
        // The rank that holds a target's logit says so; nobody else does.
        Floats picked(static_cast<std::size_t>(rows), -std::numeric_limits<float>::infinity());
        for (std::int64_t i = 0; i < rows; ++i) {
          const std::int32_t id = ids[static_cast<std::size_t>(i)];
          if (id >= s.begin && id < s.end) {
            picked[static_cast<std::size_t>(i)] = mine[static_cast<std::size_t>(i * s.size() + id - s.begin)];
          }
        }
        const Tensor target = Tensor::from(dist::max_all_reduce(r, picked), {rows, 1});
        const auto [m, l] = statistics(r);
        const Value loss = ops::where(ops::less(ops::reshape(targets, {rows, 1}), ops::full({}, 0.0, DType::i32)),
                                      ops::full({}, 0.0), l - (target - m));
        return Tensor(loss).to_bytes();
      },
      whole, "cross_entropy");
  on_ranks(
      any_count,
      [&](Communicator& r) {
        const Span s = span(r);
        std::vector<std::int32_t> local;
        for (const std::int32_t id : ids) {
          // Masked stays masked; a class of another rank is one past this rank's, and cut off again.
          local.push_back(id < 0                        ? -1
                          : id >= s.begin && id < s.end ? static_cast<std::int32_t>(id - s.begin)
                                                        : static_cast<std::int32_t>(s.size()));
        }
        const auto [m, l] = statistics(r);
        const Tensor padded = ops::pad(ops::slice_axis(logits, 1, s.begin, s.end), {0, 0}, {0, 1});
        const Tensor d =
            ops::cross_entropy_grad(padded, ops::reshape(m + l, {rows}), Tensor::from(local, {rows}), dloss);
        return columns_together(r, ops::slice_axis(d, 1, 0, s.size()), rows, dtype());
      },
      whole_gradient, "cross_entropy_grad");
}

TEST_P(Ranks, EmbeddingOverTheVocabularyAndOverGrains) {
  const std::int64_t vocab = 1000, width = 40, grains = 6, tokens = 300;
  const Tensor table = random_tensor({vocab, width}, dtype(), 1),
               g = random_tensor({grains, tokens, width}, dtype(), 2);
  const std::vector<std::int32_t> ids = tiny_ids(grains * tokens, vocab / 20);  // every id many times
  const Tensor id_tensor = Tensor::from(ids, {grains, tokens});
  const Bytes whole = Tensor(ops::embedding(table, id_tensor, dtype())).to_bytes();
  const Bytes whole_gradient = Tensor(ops::embedding_grad(id_tensor, g, vocab)).to_bytes();
  const auto rows = [&](Communicator& r) {
    return ReductionTree(TreeKind::element, vocab).split(r.size())[static_cast<std::size_t>(r.rank())];
  };
  // Ids as this rank's part of the table numbers them; those of other ranks get row `size`, which is all zero.
  const auto local_ids = [&](Span s) {
    std::vector<std::int32_t> local;
    for (const std::int32_t id : ids) {
      local.push_back(id >= s.begin && id < s.end ? static_cast<std::int32_t>(id - s.begin)
                                                  : static_cast<std::int32_t>(s.size()));
    }
    return Tensor::from(local, {grains, tokens});
  };
  on_ranks(
      any_count,
      [&](Communicator& r) {
        const Span s = rows(r);
        const Tensor mine = ops::pad(ops::slice_axis(table, 0, s.begin, s.end), {0, 0}, {1, 0});
        // One rank has the row, the others +0: any order of adding gives the row.
        dist::FloatPartials parts(ReductionTree(TreeKind::element, r.size()));
        parts.add({r.rank(), r.rank() + 1}, Tensor(ops::embedding(mine, local_ids(s), DType::f32)).to_floats());
        return rounded(dist::tree_all_reduce(r, parts), {grains, tokens, width}, dtype());
      },
      whole, "embedding");
  on_ranks(
      any_count,
      [&](Communicator& r) {
        const Span s = rows(r);
        const Tensor d = ops::slice_axis(ops::embedding_grad(local_ids(s), g, s.size() + 1), 0, 0, s.size());
        return rounded(dist::all_gather(r, d.to_floats()), {vocab, width}, DType::f32);
      },
      whole_gradient, "embedding_grad by rows");
  on_ranks(
      any_count,
      [&](Communicator& r) {
        const Floats sum = reduce_nodes(r, ReductionTree(TreeKind::element, grains), [&](Span s) {
          return ops::embedding_grad(ops::slice_axis(id_tensor, 0, s.begin, s.end),
                                     ops::slice_axis(g, 0, s.begin, s.end), vocab);
        });
        return rounded(sum, {vocab, width}, DType::f32);
      },
      whole_gradient, "embedding_grad by grains");
}

INSTANTIATE_TEST_SUITE_P(Dtypes, Ranks, testing::Values(DType::f32, DType::bf16),
                         [](const auto& p) { return std::string(dtype_name(p.param)); });

TEST(RanksOfOneDtype, AdamWOverItsElementsWithTheNormOfAll) {
  set_default_device(cpu::make_cpu_device());
  const std::int64_t n = 10007;
  const Tensor p = random_tensor({n}, DType::f32, 1), m = random_tensor({n}, DType::f32, 2),
               g = random_tensor({n}, DType::f32, 4);
  const Tensor v = Tensor(ops::abs(random_tensor({n}, DType::f32, 3)));
  const auto scalars = [](double norm) {
    const float clip = std::min(1.0F, 1.0F / (static_cast<float>(norm) + 1e-6F));
    return Tensor::from(std::vector<float>{1e-3F, 0.9F, 0.95F, 1e-8F, 0.1F, 1.9F, 2.7F, clip}, {8});
  };
  const auto updated = [](const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d, const Tensor& s) {
    Floats out;
    for (const Value& x : ops::adamw(a, b, c, d, s)) {
      const Floats f = Tensor(x).to_floats();
      out.insert(out.end(), f.begin(), f.end());
    }
    return out;
  };
  ExactSum squares;
  squares.add_squares(g.to_floats());
  const Floats whole = updated(p, m, v, g, scalars(std::sqrt(squares.round())));
  on_ranks(
      any_count,
      [&](Communicator& r) {
        const Span s = ReductionTree(TreeKind::element, n).split(r.size())[static_cast<std::size_t>(r.rank())];
        const auto part = [&](const Tensor& t) { return Tensor(ops::slice_axis(t, 0, s.begin, s.end)); };
        ExactSum mine;
        mine.add_squares(part(g).to_floats());
        const double norm = std::sqrt(dist::exact_all_reduce(r, mine).round());
        const Floats out = updated(part(p), part(m), part(v), part(g), scalars(norm));
        Floats all;
        for (int i = 0; i < 3; ++i) {
          const Floats one = dist::all_gather(
              r, std::span(out).subspan(static_cast<std::size_t>(i * s.size()), static_cast<std::size_t>(s.size())));
          all.insert(all.end(), one.begin(), one.end());
        }
        return bytes_of(all);
      },
      bytes_of(whole), "adamw");
}

TEST(RanksOfOneDtype, AnOrderThatIgnoresTheTreeShows) {
  set_default_device(cpu::make_cpu_device());
  const std::int64_t k = 4096;
  const Tensor x = random_tensor({5, k}, DType::f32, 1), w = random_tensor({70, k}, DType::f32, 2);
  const Bytes whole = Tensor(ops::linear(x, w)).to_bytes();
  // Parts added one after another by rank, as a ring does it.
  for (const int n : {3, 4, 8}) {
    dist::run_in_process(n, [&](Communicator& r) {
      const Span s = ReductionTree(TreeKind::axis, k).split(n)[static_cast<std::size_t>(r.rank())];
      const Floats all = dist::all_gather(
          r, Tensor(ops::linear(ops::slice_axis(x, 1, s.begin, s.end), ops::slice_axis(w, 1, s.begin, s.end)))
                 .to_floats());
      Floats sum(all.begin(), all.begin() + 350);
      for (int i = 1; i < n; ++i) {
        sum = dist::add_floats(sum, Floats(all.begin() + 350 * i, all.begin() + 350 * (i + 1)));
      }
      EXPECT_NE(bytes_of(sum), whole) << n << " ranks";
    });
  }
  // Parts cut beside the nodes: each is right in itself, but is no part of the whole's tree.
  const auto half = [&](std::int64_t begin, std::int64_t end) {
    return Tensor(ops::linear(ops::slice_axis(x, 1, begin, end), ops::slice_axis(w, 1, begin, end))).to_floats();
  };
  EXPECT_NE(bytes_of(dist::add_floats(half(0, 2040), half(2040, k))), whole);
  EXPECT_EQ(bytes_of(dist::add_floats(half(0, 2048), half(2048, k))), whole);
}

TEST(RanksOfOneDtype, PlacementsAtRandom) {
  set_default_device(cpu::make_cpu_device());
  const Philox random(11, "placements");
  std::uint64_t draw = 0;
  const auto upto = [&](std::uint32_t n) { return static_cast<std::int64_t>(random.bits(draw++) % n); };
  int accepted = 0, split = 0, refused = 0;
  for (int i = 0; i < 150; ++i) {
    const std::int64_t k = 1 + upto(i % 3 == 0 ? 300 : 9000);
    const int n = static_cast<int>(1 + upto(8));
    const ReductionTree tree(TreeKind::axis, k);
    const Tensor x = random_tensor({2, k}, DType::bf16, static_cast<std::uint64_t>(i)),
                 w = random_tensor({9, k}, DType::bf16, 99);
    if (n >= static_cast<int>(tree.borders().size())) {
      EXPECT_THROW(static_cast<void>(tree.split(n)), Error) << k << " among " << n;
      ++refused;
      continue;
    }
    ++accepted;
    split += n > 1 ? 1 : 0;
    const Bytes whole = Tensor(ops::linear(x, w)).to_bytes();
    dist::run_in_process(n, [&](Communicator& r) {
      EXPECT_EQ(rounded(sharded_contraction(r, x, w), {2, 9}, DType::bf16), whole) << k << " among " << n;
    });
  }
  EXPECT_GT(refused, 5);
  EXPECT_GE(2 * split, accepted) << "of " << accepted << " accepted placements only " << split
                                 << " split the reduced axis";
}

}  // namespace
}  // namespace isotone::bits
