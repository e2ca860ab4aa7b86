// The endless order in which training sees grains: permutations and mixtures that need no table, so that any place in
// it is found at once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace isotone::data {

/// A permutation of [0, n): a Feistel network over Philox, walked until it lands inside. n is at most 2^62.
std::int64_t permute(std::int64_t i, std::int64_t n, std::uint64_t key);

/// Grain that place `index` of a source's own endless stream shows: each epoch is another permutation of its grains.
/// `name` is the source's: neither its place in a recipe nor other sources change its order.
std::int64_t shuffled(std::int64_t index, std::int64_t grains, std::uint64_t seed, const std::string& name);

/// From which place of the stream on which weights hold, one for each source.
struct MixtureStage {
  std::int64_t first = 0;
  std::vector<std::int64_t> weights;
};

/// Of any W neighbouring places that begin at a multiple of W after a stage's first, W being the sum of its weights by
/// their greatest common divisor, a source with weight w has exactly w / divisor. Where a stage ends inside such a
/// cycle, what the cycle would still have shown is passed over.
class Mixture {
 public:
  struct Place {
    std::size_t source = 0;
    std::int64_t index = 0;  ///< in the source's own stream
    friend bool operator==(const Place&, const Place&) = default;
  };
  /// Stages by rising first place; the first begins at 0. Throws Error for weights below 0, all 0, or a sum over
  /// kMostWeight (after division).
  Mixture(std::vector<MixtureStage> stages, std::uint64_t seed);
  [[nodiscard]] Place at(std::int64_t place) const;

  static constexpr std::int64_t kMostWeight = 1'000'000;

 private:
  struct Stage {
    std::int64_t first = 0, sum = 0;
    std::vector<std::int64_t> weights;
    std::vector<std::int64_t> ends;  // of each source's slots
    std::vector<std::int64_t> seen;  // of each source's stream before this stage
  };
  [[nodiscard]] Place at(const Stage& stage, std::int64_t place) const;
  std::uint64_t key_;
  std::vector<Stage> stages_;
};

}  // namespace isotone::data
