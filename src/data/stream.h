// The endless stream of grains that training sees: sources by their weights, each shuffled anew in every epoch. What
// stands at a place is a function of the recipe and the place alone, found without reading what comes before.
#pragma once

#include <memory>

#include "data/grains.h"
#include "data/order.h"

namespace isotone::data {

struct NamedGrains {
  std::string name;
  std::shared_ptr<const Grains> grains;
};

class Stream {
 public:
  /// All sources have grains of one length; the mixture has a weight for each, in the same order.
  Stream(std::vector<NamedGrains> sources, Mixture mixture, std::uint64_t seed);

  struct Place {
    std::size_t source = 0;
    std::int64_t grain = 0;  ///< of the source
    std::int64_t epoch = 0;  ///< of the source
  };
  [[nodiscard]] Place at(std::int64_t place) const;
  /// Grains [first, first + count) of the stream, read when they are asked for; the stream must outlive it.
  [[nodiscard]] GlobalBatch batch(std::int64_t first, std::int64_t count) const;
  [[nodiscard]] const std::vector<NamedGrains>& sources() const { return sources_; }

 private:
  std::vector<NamedGrains> sources_;
  Mixture mixture_;
  std::uint64_t seed_;
};

/// Grains [0, count) as they were packed, at most as many as there are; `grains` must outlive it.
GlobalBatch in_order(const Grains& grains, std::int64_t count);

}  // namespace isotone::data
