// What all ranks must know of a global batch before they compute: how many tokens it teaches, and its hash. Each looks
// at some of its grains only.
#pragma once

#include <span>
#include <string>

#include "base/reduction_tree.h"
#include "data/batch.h"
#include "dist/communicator.h"

namespace isotone::train {

struct BatchCensus {
  std::int64_t learned = 0;
  std::string sha256;
};

/// Every rank calls it with the grains it looks at; together they are all, each once. Throws Error, on every rank,
/// where one cannot read its grains.
BatchCensus take_census(const data::GlobalBatch& batch, std::span<const Span> mine, dist::Communicator& ranks);

}  // namespace isotone::train
