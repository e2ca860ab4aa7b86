// Sums over ranks in tree order, with slices: the bits of one process, and no more bytes than needed.
#include "dist/sliced_collectives.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "base/error.h"
#include "base/philox.h"
#include "dist/in_process.h"

namespace isotone::dist {
namespace {

/// Counts what passes through.
class Counting : public Communicator {
 public:
  explicit Counting(Communicator& inner) : inner_(inner) {}
  [[nodiscard]] int rank() const override { return inner_.rank(); }
  [[nodiscard]] int size() const override { return inner_.size(); }
  void send(int to, Message message) override {
    sent_ += static_cast<std::int64_t>(message.size());
    ++messages_;
    inner_.send(to, std::move(message));
  }
  Message receive(int from) override { return inner_.receive(from); }
  [[nodiscard]] CallLog& calls() override { return inner_.calls(); }
  [[nodiscard]] std::int64_t sent() const { return sent_; }
  [[nodiscard]] int messages() const { return messages_; }

 private:
  Communicator& inner_;
  std::int64_t sent_ = 0;
  int messages_ = 0;
};

using Tensors = std::vector<Floats>;

/// What item `i` of the axis adds to each tensor: values of many magnitudes, so that any other order shows.
Tensors item(std::int64_t i, const std::vector<std::int64_t>& lengths) {
  Tensors out;
  for (std::size_t t = 0; t < lengths.size(); ++t) {
    const Philox philox(static_cast<std::uint64_t>(i), "item" + std::to_string(t));
    Floats values(static_cast<std::size_t>(lengths[t]));
    for (std::size_t k = 0; k < values.size(); ++k) {
      values[k] = philox.normal(k) * static_cast<float>(1 << (philox.bits(k) % 12));
    }
    out.push_back(std::move(values));
  }
  return out;
}

/// The value of a node, by the definition.
Tensors node_value(const ReductionTree& tree, Span node, const std::vector<std::int64_t>& lengths) {
  if (node.size() == 1) {
    return item(node.begin, lengths);
  }
  const auto [l, r] = tree.children(node);
  Tensors left = node_value(tree, l, lengths);
  const Tensors right = node_value(tree, r, lengths);
  for (std::size_t t = 0; t < left.size(); ++t) {
    left[t] = add_floats(std::move(left[t]), right[t]);
  }
  return left;
}

Pieces pieces_of(Tensors& tensors) {
  return {tensors.begin(), tensors.end()};
}

Tensors zeros(const std::vector<std::int64_t>& lengths) {
  Tensors out;
  for (const std::int64_t n : lengths) {
    out.emplace_back(static_cast<std::size_t>(n));
  }
  return out;
}

TEST(SliceLayout, SlicesCoverEveryTensorOnceAndPacksComeBack) {
  const std::vector<std::int64_t> lengths{7, 0, 100, 1, 3, 64};
  for (int ranks = 1; ranks <= 9; ++ranks) {
    const SliceLayout layout(lengths, ranks);
    Tensors from = item(1, lengths), to = zeros(lengths);
    std::int64_t all = 0;
    for (int r = 0; r < ranks; ++r) {
      const std::int64_t n = layout.pack_elements(r);
      all += n;
      Floats pack(static_cast<std::size_t>(n));
      // In two parts, cut anywhere.
      for (const Span part : {Span{0, n / 3}, Span{n / 3, n}}) {
        layout.pack({from.begin(), from.end()}, r, part, pack.data() + part.begin);
        layout.unpack(pack.data() + part.begin, r, part, pieces_of(to));
      }
      for (std::size_t t = 0; t < lengths.size(); ++t) {
        EXPECT_EQ(layout.in_pack(t, r).size(), layout.slice(t, r).size());
      }
    }
    EXPECT_EQ(all, layout.elements());
    EXPECT_EQ(from, to) << ranks << " ranks";
  }
  const SliceLayout layout(lengths, 2);
  Tensors some = zeros(lengths);
  Floats pack(1000);
  EXPECT_THROW(layout.unpack(pack.data(), 2, {0, 1}, pieces_of(some)), Error);
  EXPECT_THROW(layout.unpack(pack.data(), 0, {0, 1000}, pieces_of(some)), Error);
  EXPECT_THROW(layout.unpack(pack.data(), 0, {0, 1}, {}), Error);
  EXPECT_THROW(SliceLayout(lengths, 0), Error);
}

TEST(SlicedCollectives, AnyNumberOfRanksOverAnyNumberOfItems) {
  const std::vector<std::int64_t> lengths{37, 5, 1, 256};
  for (const std::int64_t items : {1, 2, 3, 5, 6, 8, 12}) {
    const ReductionTree tree(TreeKind::element, items);
    const Tensors whole = node_value(tree, tree.root(), lengths);
    for (const int size : {1, 2, 3, 4, 5, 6, 7, 8, 12, 16}) {
      const SliceLayout layout(lengths, size);
      const TreeParts parts(tree, size);
      run_in_process(size, [&](Communicator& inner) {
        Counting r(inner);
        Tensors kept;
        const NodeValues values = [&](Span node) {
          kept = node_value(tree, node, lengths);
          return ConstPieces(kept.begin(), kept.end());
        };
        const Floats mine = tree_reduce_scatter(r, parts, layout, values);
        Floats expected(static_cast<std::size_t>(layout.pack_elements(r.rank())));
        layout.pack({whole.begin(), whole.end()}, r.rank(), {0, layout.pack_elements(r.rank())}, expected.data());
        EXPECT_EQ(mine, expected) << items << " items, rank " << r.rank() << " of " << size;
        EXPECT_EQ(r.sent(), 4 * reduce_scatter_sends(parts, layout, r.rank()));
        const std::int64_t before = r.sent();
        Tensors all = zeros(lengths);
        all_gather_slices(r, layout, mine, pieces_of(all));
        EXPECT_EQ(all, whole) << items << " items, rank " << r.rank() << " of " << size;
        EXPECT_EQ(r.sent() - before, 4 * all_gather_sends(layout, r.rank()));
        Tensors reduced = zeros(lengths);
        tree_all_reduce(r, parts, layout, values, pieces_of(reduced));
        EXPECT_EQ(reduced, whole);
      });
    }
  }
}

TEST(SlicedCollectives, AnotherOrderWouldShow) {
  const std::vector<std::int64_t> lengths{512};
  const ReductionTree tree(TreeKind::element, 6);
  Tensors fold = item(0, lengths);
  for (std::int64_t i = 1; i < 6; ++i) {
    fold[0] = add_floats(std::move(fold[0]), item(i, lengths)[0]);
  }
  EXPECT_NE(fold, node_value(tree, tree.root(), lengths));
}

/// A vector of V values on n = 2^k ranks: n - 1 of n parts of it must leave each rank to be summed, and as many to be
/// gathered; in k messages each, plus what is cut for length.
TEST(SlicedCollectives, BytesAreTheLeastPossibleForPowersOfTwo) {
  const std::int64_t length = 3 << 21;
  for (const int size : {2, 4, 8}) {
    const SliceLayout layout({length}, size);
    const TreeParts parts(ReductionTree(TreeKind::element, size), size);
    ASSERT_TRUE(parts.halves());
    std::atomic<int> wrong = 0;
    run_in_process(size, [&](Communicator& inner) {
      Counting r(inner);
      const Floats values(static_cast<std::size_t>(length), static_cast<float>(r.rank()));
      const Floats mine = tree_reduce_scatter(r, parts, layout, [&](Span) { return ConstPieces{values}; });
      EXPECT_EQ(r.sent(), 4 * length / size * (size - 1));
      Floats all(static_cast<std::size_t>(length));
      all_gather_slices(r, layout, mine, {all});
      EXPECT_EQ(r.sent(), 2 * 4 * length / size * (size - 1));
      const auto sum = static_cast<float>(size * (size - 1) / 2);
      wrong += static_cast<int>(std::count_if(all.begin(), all.end(), [&](float x) { return x != sum; }));
    });
    EXPECT_EQ(wrong, 0);
  }
}

TEST(SlicedCollectives, WhichWorldsHalve) {
  const auto halves = [](std::int64_t items, int ranks) {
    return TreeParts(ReductionTree(TreeKind::element, items), ranks).halves();
  };
  EXPECT_TRUE(halves(6, 1));
  EXPECT_TRUE(halves(6, 2));
  EXPECT_TRUE(halves(12, 4));
  EXPECT_FALSE(halves(6, 4));  // a rank owns two nodes
  EXPECT_FALSE(halves(2, 4));  // two own none
  EXPECT_FALSE(halves(6, 3));  // no power of two
}

TEST(SlicedCollectives, RanksThatDisagreeAreNamed) {
  try {
    run_in_process(2, [](Communicator& r) {
      const Floats values(static_cast<std::size_t>(10 + r.rank()), 1.0F);
      const SliceLayout layout({static_cast<std::int64_t>(values.size())}, 2);
      const TreeParts parts(ReductionTree(TreeKind::element, 2), 2);
      static_cast<void>(tree_reduce_scatter(r, parts, layout, [&](Span) { return ConstPieces{values}; }));
      static_cast<void>(tree_reduce_scatter(r, parts, layout, [&](Span) { return ConstPieces{values}; }));
    });
    ADD_FAILURE() << "nobody noticed";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("do different things"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace isotone::dist
