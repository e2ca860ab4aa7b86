// The axis of a contraction by definition: what the references of all operations that multiply matrices share.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/dtype.h"
#include "base/numerics.h"
#include "base/tree.h"

namespace isotone::ops {

/// The sum of a(i) * b(i) over i in [0, n) for inputs of `dtype`: the axis tree, leaves by the process's profile
/// (docs/numerics.md, sections 2 and 3).
template <class A, class B>
float contraction_tree(DType dtype, std::int64_t n, const A& a, const B& b) {
  const bool pairs = dtype == DType::bf16;
  const bool blocks = pairs && numerics_profile() == NumericsProfile::amx_1;
  const auto leaf = [&](std::int64_t begin, std::int64_t count) {
    if (blocks) {
      return block_leaf(count,
                        [&](std::int64_t i, float chain) { return std::fma(a(begin + i), b(begin + i), chain); }) +
             0.0F;
    }
    float acc = 0.0F;
    for (std::int64_t i = 0; i < count; ++i) {
      // bf16: within each pair of neighbours the odd one first (profile pairdot-1).
      const std::int64_t other = pairs ? (i ^ 1) : i;
      const std::int64_t k = begin + (other < count ? other : i);
      acc = std::fma(a(k), b(k), acc);
    }
    return acc + 0.0F;
  };
  return axis_tree(0, n, leaf, [](float l, float r) { return l + r; });
}

}  // namespace isotone::ops
