// Rows by expert: the lists, a row's independence of the other rows, and that the kernel runs where it is meant to.
#include "backends/cpu/kernels/experts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/cpu/kernels/contract.h"
#include "base/error_for_tests.h"
#include "base/kernel_log.h"
#include "base/philox.h"
#include "base/tree.h"

namespace isotone::cpu {
namespace {

using Rows = std::vector<std::int64_t>;

TEST(RowsByExpert, AscendingByExpertThenGrain) {
  const std::vector<std::int32_t> ids{2, 0, -1, 2, 0, 0, 1, 2};
  const RowLists one = rows_by_expert("op", ids, 4, 1);
  EXPECT_EQ(one.begin, (Rows{0, 3, 4, 7, 7}));
  EXPECT_EQ(one.rows, (Rows{1, 4, 5, 6, 0, 3, 7}));
  const RowLists two = rows_by_expert("op", ids, 4, 2);  // grains of four rows
  EXPECT_EQ(two.begin, (Rows{0, 1, 3, 3, 4, 6, 7, 7, 7}));
  EXPECT_EQ(two.rows, (Rows{1, 4, 5, 6, 0, 3, 7}));
  EXPECT_EQ(rows_by_expert("op", {}, 2, 0).begin, (Rows{0}));
}

TEST(RowsByExpert, RefusesOtherExperts) {
  EXPECT_EQ(error_of([] {
              rows_by_expert("op", std::vector<std::int32_t>{0, 4}, 4, 1);
            }),
            "op: expert 4 is outside [-1, 4)");
  EXPECT_EQ(error_of([] { rows_by_expert("op", std::vector<std::int32_t>{-2}, 4, 1); }),
            "op: expert -2 is outside [-1, 4)");
}

/// Real widths; every row must have the bits of the contraction of that row alone with its expert's matrix.
TEST(ExpertLinear, ARowIsTheContractionOfThatRow) {
  constexpr std::int64_t kExperts = 7, kIn = 1000, kOut = 576;
  const Philox philox(3, "experts");
  std::vector<float> w(kExperts * kOut * kIn);
  for (std::size_t i = 0; i < w.size(); ++i) {
    w[i] = philox.uniform(i) - 0.5F;
  }
  for (const std::int64_t rows : {1, 3, 97}) {
    std::vector<float> x(static_cast<std::size_t>(rows * kIn)), made(static_cast<std::size_t>(rows * kOut)),
        y(made.size()), gathered(x.size());
    std::vector<std::int32_t> ids;
    Rows offsets;
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = philox.uniform(i, 1) - 0.5F;
    }
    for (std::int64_t i = 0; i < rows; ++i) {
      ids.push_back(static_cast<std::int32_t>(philox.bits(static_cast<std::uint64_t>(i)) % kExperts) -
                    (i == 2 ? 8 : 0));
      ids.back() = std::max(ids.back(), -1);
      offsets.push_back(i * kIn);
    }
    set_kernel_log(true);
    expert_linear({x.data(), offsets, kIn, DType::f32}, {w.data(), kExperts, kOut, kIn, kOut * kIn, kIn, 1},
                  rows_by_expert("op", ids, kExperts, 1), reinterpret_cast<std::byte*>(y.data()),
                  reinterpret_cast<std::byte*>(gathered.data()), reinterpret_cast<std::byte*>(made.data()));
    EXPECT_EQ(kernel_calls("expert_linear"), 1);
    set_kernel_log(false);
    for (std::int64_t i = 0; i < rows; ++i) {
      std::vector<float> alone(kOut, 0.0F);
      if (const std::int32_t id = ids[static_cast<std::size_t>(i)]; id >= 0) {
        Contraction c;
        c.m = 1;
        c.n = kOut;
        c.k = kIn;
        c.a = {x.data() + i * kIn, DType::f32, 0, 0, kIn, 1};
        c.b = {w.data() + id * kOut * kIn, DType::f32, 0, 0, kIn, 1};
        c.c = alone.data();
        c.c_row_stride = kOut;
        contract_reference(c);
      }
      EXPECT_EQ(std::memcmp(alone.data(), y.data() + i * kOut, kOut * sizeof(float)), 0)
          << "row " << i << " of " << rows;
    }
  }
}

/// Six grains, lists longer than a leaf and an expert that some grains never use.
TEST(ExpertLinearGrad, AxisTreePerGrainThenElementTree) {
  constexpr std::int64_t kExperts = 3, kGrains = 6, kRows = 700, kIn = 5, kOut = 7;
  const Philox philox(4, "experts");
  std::vector<float> x(kGrains * kRows * kIn), dy(kGrains * kRows * kOut);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = philox.uniform(i) - 0.5F;
  }
  for (std::size_t i = 0; i < dy.size(); ++i) {
    dy[i] = philox.uniform(i, 1) - 0.5F;
  }
  std::vector<std::int32_t> ids(kGrains * kRows);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const bool rare = i / kRows % 2 == 1;  // in every other grain nobody uses the last expert
    ids[i] = static_cast<std::int32_t>(philox.bits(i) % (rare ? kExperts - 1 : kExperts));
  }
  const auto offsets = [](std::int64_t width) {
    Rows out(kGrains * kRows);
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = static_cast<std::int64_t>(i) * width;
    }
    return out;
  };
  const Rows x_at = offsets(kIn), dy_at = offsets(kOut);
  std::vector<float> dw(kExperts * kOut * kIn), x_rows(x.size()), dy_rows(dy.size()),
      nodes(static_cast<std::size_t>(kOut * kIn * tree_levels(kGrains)));
  expert_linear_grad({x.data(), x_at, kIn, DType::f32}, {dy.data(), dy_at, kOut, DType::f32},
                     rows_by_expert("op", ids, kExperts, kGrains), kExperts, kGrains, dw.data(),
                     reinterpret_cast<std::byte*>(x_rows.data()), reinterpret_cast<std::byte*>(dy_rows.data()),
                     nodes.data());
  const auto add = [](float l, float r) { return l + r; };
  for (std::int64_t o = 0; o < kExperts * kOut * kIn; ++o) {
    const std::int64_t expert = o / (kOut * kIn), row = o / kIn % kOut, column = o % kIn;
    const auto grain = [&](std::int64_t g) {
      Rows list;
      for (std::int64_t i = g * kRows; i < (g + 1) * kRows; ++i) {
        if (ids[static_cast<std::size_t>(i)] == expert) {
          list.push_back(i);
        }
      }
      const auto leaf = [&](std::int64_t begin, std::int64_t n) {
        float sum = 0.0F;
        for (std::int64_t i = begin; i < begin + n; ++i) {
          const std::int64_t at = list[static_cast<std::size_t>(i)];
          sum = std::fma(dy[static_cast<std::size_t>(at * kOut + row)], x[static_cast<std::size_t>(at * kIn + column)],
                         sum);
        }
        return sum + 0.0F;
      };
      return axis_tree(0, static_cast<std::int64_t>(list.size()), leaf, add);
    };
    EXPECT_EQ(dw[static_cast<std::size_t>(o)], element_tree(0, kGrains, grain, add)) << o;
  }
}

}  // namespace
}  // namespace isotone::cpu
