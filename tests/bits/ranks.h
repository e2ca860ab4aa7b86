// Ranks as threads, and the ways in which the tests of sharded forms use them.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "backends/cpu/device.h"
#include "base/error.h"
#include "base/philox.h"
#include "dist/collectives.h"
#include "dist/in_process.h"
#include "ops/functions.h"
#include "tensor/tensor.h"
#include "tests/bits/tiny_model.h"

namespace isotone::bits {

using dist::Communicator;
using dist::Floats;

using Bytes = std::vector<std::byte>;

inline Bytes bytes_of(std::span<const float> values) {
  const auto b = std::as_bytes(values);
  return {b.begin(), b.end()};
}

inline Tensor random_tensor(const Shape& shape, DType dtype, std::uint64_t seed) {
  const Philox philox(seed, "tensor");
  Floats values(static_cast<std::size_t>(Type{DType::f32, shape}.elements()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = philox.normal(i);
  }
  const Tensor t = ops::cast(Tensor::from(values, shape), dtype);
  eval(t);
  return t;
}

/// f32 values of `shape`, rounded once: what a rank does at the tree's root.
inline Bytes rounded(const Floats& values, const Shape& shape, DType dtype) {
  return Tensor(ops::cast(Tensor::from(values, shape), dtype)).to_bytes();
}

/// This rank computes `part(node)` for every node that covers its part of the axis; the sum over all ranks' nodes.
inline Floats reduce_nodes(Communicator& r, const ReductionTree& tree, const std::function<Tensor(Span)>& part) {
  dist::FloatPartials mine(tree);
  for (const Span node : tree.cover(tree.split(r.size())[static_cast<std::size_t>(r.rank())])) {
    mine.add(node, part(node).to_floats());
  }
  return dist::tree_all_reduce(r, std::move(mine));
}

/// Columns [rows, mine] of all ranks side by side, in `dtype`.
inline Bytes columns_together(Communicator& r, const Tensor& mine, std::int64_t rows, DType dtype) {
  const Floats turned = Tensor(ops::transpose(mine, {1, 0})).to_floats();
  const Floats all = dist::all_gather(r, turned);
  const std::int64_t columns = static_cast<std::int64_t>(all.size()) / rows;
  return Tensor(ops::cast(ops::transpose(Tensor::from(all, {columns, rows}), {1, 0}), dtype)).to_bytes();
}

inline bool any_count(int) {
  return true;
}

/// On 1, 2, 3, 4 and 8 ranks, as far as `fits` says: every rank's `sharded` equals `whole`.
inline void on_ranks(const std::function<bool(int)>& fits, const std::function<Bytes(Communicator&)>& sharded,
                     const Bytes& whole, const std::string& what) {
  int tried = 0;
  for (const int n : {1, 2, 3, 4, 8}) {
    if (!fits(n)) {
      continue;
    }
    ++tried;
    dist::run_in_process(n, [&](Communicator& r) {
      EXPECT_TRUE(sharded(r) == whole) << what << ": rank " << r.rank() << " of " << n
                                       << " has other bits than the whole";
    });
  }
  EXPECT_GE(tried, 3) << what;
}

}  // namespace isotone::bits
