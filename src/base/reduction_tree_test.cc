#include "base/reduction_tree.h"

#include <gtest/gtest.h>

#include "base/error_for_tests.h"
#include "base/tree.h"
#include "base/partials.h"

namespace isotone {
namespace {

/// The order of a reduction, written out: "((a+b)+c)".
std::string order_of(TreeKind kind, std::int64_t n) {
  const auto item = [](std::int64_t i) { return std::to_string(i); };
  const auto leaf = [](std::int64_t begin, std::int64_t) { return std::to_string(begin); };
  const auto add = [](const std::string& a, const std::string& b) { return "(" + a + "+" + b + ")"; };
  return kind == TreeKind::axis      ? axis_tree(0, n, leaf, add)
         : kind == TreeKind::element ? element_tree(0, n, item, add)
                                     : prefix_tree(0, n, item, add);
}

TEST(ReductionTree, JoiningNodesGivesTheOrderOfTheContract) {
  for (const TreeKind kind : {TreeKind::axis, TreeKind::element, TreeKind::prefix}) {
    for (std::int64_t n = 1; n <= (kind == TreeKind::axis ? 20000 : 70); n += kind == TreeKind::axis ? 397 : 1) {
      const ReductionTree tree(kind, n);
      Partials<std::string> parts(tree);
      const std::vector<std::int64_t> borders = tree.borders();
      for (std::size_t i = 0; i + 1 < borders.size(); ++i) {
        EXPECT_FALSE(parts.whole());
        parts.add({borders[i], borders[i + 1]}, std::to_string(borders[i]));
      }
      parts.merge([](const std::string& a, const std::string& b) { return "(" + a + "+" + b + ")"; });
      EXPECT_EQ(parts.root(), order_of(kind, n)) << tree.describe();
    }
  }
}

TEST(ReductionTree, PartsCoverTheAxisAndAreFewNodes) {
  for (const TreeKind kind : {TreeKind::axis, TreeKind::element, TreeKind::prefix}) {
    const ReductionTree tree(kind, kind == TreeKind::axis ? 11008 : 43);
    for (int ranks = 1; ranks <= 16; ++ranks) {
      std::int64_t at = 0;
      for (const Span part : tree.split(ranks)) {
        EXPECT_EQ(part.begin, at);
        at = part.end;
        std::int64_t inside = part.begin;
        for (const Span node : tree.cover(part)) {
          EXPECT_EQ(node.begin, inside);
          inside = node.end;
        }
        EXPECT_EQ(inside, part.end);
        EXPECT_LE(tree.cover(part).size(), 12U);
      }
      EXPECT_EQ(at, tree.length());
    }
  }
}

TEST(ReductionTree, UsualModelsFitUsualDegrees) {
  for (const std::int64_t width : {4096, 14336}) {
    for (int ranks = 2; ranks <= 16; ranks *= 2) {
      for (const Span part : ReductionTree(TreeKind::axis, width).split(ranks)) {
        EXPECT_EQ(part.size(), width / ranks) << width << " among " << ranks;
      }
    }
  }
  for (int context = 2; context <= 8; context *= 2) {
    EXPECT_EQ(ReductionTree(TreeKind::axis, 256 * context).split(context).size(), static_cast<std::size_t>(context));
  }
  for (std::int64_t grains = 1; grains <= 20; ++grains) {
    for (int data = 1; data <= 16; ++data) {
      EXPECT_EQ(ReductionTree(TreeKind::element, grains).split(data).size(), static_cast<std::size_t>(data));
    }
  }
}

TEST(ReductionTree, RefusalsNameWhatFits) {
  const ReductionTree tree(TreeKind::axis, 576);
  EXPECT_EQ(error_of([&] { static_cast<void>(tree.split(8)); }),
            "axis tree of 576: has 4 leaves and cannot be split among 8 ranks; at most 4 fit");
  EXPECT_EQ(error_of([&] {
              static_cast<void>(tree.cover({0, 192}));
            }),
            "axis tree of 576: cannot be cut at 192, which would change the order of its sum; the nearest cuts are 160 "
            "and 288");
  EXPECT_NE(error_of([&] { static_cast<void>(tree.cover({0, 577})); }), "");
  EXPECT_NE(error_of([] { ReductionTree(TreeKind::axis, 0); }), "");
  EXPECT_NE(error_of([&] { static_cast<void>(tree.split(0)); }), "");
}

TEST(Partials, MissingAndDoubledNodesAreErrors) {
  const ReductionTree tree(TreeKind::element, 4);
  Partials<int> parts(tree);
  parts.add({0, 1}, 1);
  EXPECT_THROW(parts.add({0, 1}, 1), Error);
  parts.add({1, 2}, 2);
  parts.add({3, 4}, 4);
  parts.merge([](int a, int b) { return a + b; });
  EXPECT_EQ(parts.nodes().size(), 2U);
  EXPECT_THROW(static_cast<void>(parts.root()), Error);
  parts.add({2, 3}, 3);
  parts.merge([](int a, int b) { return a + b; });
  EXPECT_EQ(parts.root(), 10);
}

}  // namespace
}  // namespace isotone
