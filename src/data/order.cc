#include "data/order.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/error.h"
#include "base/hash.h"
#include "base/philox.h"

namespace isotone::data {

namespace {

/// Key of one of an order's permutations.
std::uint64_t key_of(std::uint64_t order, std::int64_t which) {
  return order * 0x9e3779b97f4a7c15ULL + static_cast<std::uint64_t>(which);
}

}  // namespace

std::int64_t permute(std::int64_t i, std::int64_t n, std::uint64_t key) {
  require(i >= 0 && i < n && n <= (std::int64_t{1} << 62), "permute: {} is outside [0, {})", i, n);
  if (n < 2) {
    return i;
  }
  const int half = (std::bit_width(static_cast<std::uint64_t>(n - 1)) + 1) / 2;
  const std::uint32_t mask = (1U << half) - 1U;
  const Philox philox(key);
  auto x = static_cast<std::uint64_t>(i);
  do {
    auto left = static_cast<std::uint32_t>(x >> half), right = static_cast<std::uint32_t>(x) & mask;
    for (std::uint32_t round = 0; round < 4; ++round) {
      const std::uint32_t next = left ^ (philox.block({right, round, 0, 0})[0] & mask);
      left = right;
      right = next;
    }
    x = (static_cast<std::uint64_t>(left) << half) | right;
  } while (x >= static_cast<std::uint64_t>(n));
  return static_cast<std::int64_t>(x);
}

std::int64_t shuffled(std::int64_t index, std::int64_t grains, std::uint64_t seed, const std::string& name) {
  // A recipe with one source that has no name goes by the seed itself, as before sources had names.
  const std::uint64_t order = name.empty() ? seed : xxh3_64(name, seed);
  return permute(index % grains, grains, key_of(order, index / grains));
}

Mixture::Mixture(std::vector<MixtureStage> stages, std::uint64_t seed) : key_(xxh3_64("isotone mixture", seed)) {
  require(!stages.empty() && stages[0].first == 0, "a mixture needs weights from its first place on");
  for (MixtureStage& from : stages) {
    Stage s;
    s.first = from.first;
    require(stages_.empty() || (s.first > stages_.back().first && from.weights.size() == stages_[0].weights.size()),
            "stages of a mixture must rise, each with a weight for every source");
    std::int64_t divisor = 0;
    for (const std::int64_t w : from.weights) {
      require(w >= 0, "a source's weight is {}; it must not be below 0", w);
      divisor = std::gcd(divisor, w);
    }
    require(divisor > 0, "all sources have weight 0");
    for (const std::int64_t w : from.weights) {
      s.weights.push_back(w / divisor);
      require(s.weights.back() <= kMostWeight - s.sum, "the weights add up to more than {}; choose smaller ones",
              kMostWeight);
      s.sum += s.weights.back();
      s.ends.push_back(s.sum);
    }
    s.seen.assign(s.weights.size(), 0);
    if (!stages_.empty()) {
      // A cycle that the stage before left unfinished counts as a whole one, so that no grain comes twice.
      const Stage& before = stages_.back();
      const std::int64_t cycles = (s.first - before.first + before.sum - 1) / before.sum;
      for (std::size_t i = 0; i < s.seen.size(); ++i) {
        s.seen[i] = before.seen[i] + cycles * before.weights[i];
      }
    }
    stages_.push_back(std::move(s));
  }
}

Mixture::Place Mixture::at(const Stage& s, std::int64_t place) const {
  const std::int64_t into = place - s.first, cycle = into / s.sum;
  const std::int64_t slot = permute(into % s.sum, s.sum, key_of(key_, cycle));
  const auto source = static_cast<std::size_t>(std::upper_bound(s.ends.begin(), s.ends.end(), slot) - s.ends.begin());
  return {source, s.seen[source] + cycle * s.weights[source] + slot - (s.ends[source] - s.weights[source])};
}

Mixture::Place Mixture::at(std::int64_t place) const {
  require(place >= 0, "there is no place {} in a mixture", place);
  const auto after = std::upper_bound(stages_.begin(), stages_.end(), place,
                                      [](std::int64_t p, const Stage& s) { return p < s.first; });
  return at(*std::prev(after), place);
}

}  // namespace isotone::data
