#include "train/grain_hashes.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "base/error.h"
#include "base/hash.h"
#include "dist/collectives.h"

namespace isotone::train {

void GrainHashes::start(std::int64_t grains) {
  hashes_.assign(static_cast<std::size_t>(grains), 0);
  mine_.clear();
}

void GrainHashes::add(const data::Batch& part, const Tensor& losses) {
  const std::vector<float> values = losses.to_floats();
  const auto tokens = static_cast<std::size_t>(part.tokens);
  for (std::int64_t i = 0; i < part.grains; ++i) {
    const std::span<const float> grain = std::span(values).subspan(static_cast<std::size_t>(i) * tokens, tokens);
    hashes_.at(static_cast<std::size_t>(part.first + i)) = xxh3_64(std::as_bytes(grain));
    mine_.push_back(part.first + i);
  }
}

std::vector<std::uint64_t> GrainHashes::gather(dist::Communicator& ranks) const {
  std::vector<std::uint64_t> pairs;  // grain and hash
  for (const std::int64_t grain : mine_) {
    pairs.push_back(static_cast<std::uint64_t>(grain));
    pairs.push_back(hashes_[static_cast<std::size_t>(grain)]);
  }
  const auto bytes = std::as_bytes(std::span(pairs));
  std::vector<std::uint64_t> all(hashes_.size());
  for (const dist::Message& m : dist::all_gather(ranks, dist::Message(bytes.begin(), bytes.end()))) {
    std::vector<std::uint64_t> theirs(m.size() / sizeof(std::uint64_t));
    std::memcpy(theirs.data(), m.data(), theirs.size() * sizeof(std::uint64_t));
    for (std::size_t i = 0; i + 1 < theirs.size(); i += 2) {
      all.at(theirs[i]) = theirs[i + 1];
    }
  }
  return all;
}

std::int64_t grain_group(std::int64_t grains) {
  constexpr auto kMost = static_cast<std::int64_t>(kMostGrainHashes);
  return std::max<std::int64_t>(1, (grains + kMost - 1) / kMost);
}

std::vector<std::string> grain_hash_texts(const std::vector<std::uint64_t>& hashes) {
  const auto group = static_cast<std::size_t>(grain_group(static_cast<std::int64_t>(hashes.size())));
  std::vector<std::string> out;
  for (std::size_t at = 0; at < hashes.size(); at += group) {
    const auto part = std::span(hashes).subspan(at, std::min(group, hashes.size() - at));
    out.push_back(fmt::format("{:016x}", group == 1 ? part[0] : xxh3_64(std::as_bytes(part))));
  }
  return out;
}

}  // namespace isotone::train
