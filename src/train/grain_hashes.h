// Hashes of what single grains gave in a step: enough to say where two runs part, small enough for every line of the
// metrics.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/batch.h"
#include "dist/communicator.h"
#include "tensor/tensor.h"

namespace isotone::train {

/// XXH3 over the bits of each grain's losses, token by token.
class GrainHashes {
 public:
  /// Of a step over `grains` grains.
  void start(std::int64_t grains);
  /// `losses`: f32 [grain, token] of a part of the step's batch that this rank computed.
  void add(const data::Batch& part, const Tensor& losses);
  /// Of all grains; every rank calls it, having added what it computed.
  [[nodiscard]] std::vector<std::uint64_t> gather(dist::Communicator& ranks) const;

 private:
  std::vector<std::uint64_t> hashes_;
  std::vector<std::int64_t> mine_;
};

/// At most this many hashes stand in a line of the metrics.
inline constexpr std::size_t kMostGrainHashes = 64;

/// 16 hexadecimal digits for each grain; where there are more than kMostGrainHashes, for groups of neighbours, each as
/// long as grain_group() says.
std::vector<std::string> grain_hash_texts(const std::vector<std::uint64_t>& hashes);
std::int64_t grain_group(std::int64_t grains);

}  // namespace isotone::train
