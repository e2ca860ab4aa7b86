#include "data/grains.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "base/hash.h"
#include "base/philox.h"
#include "base/tree.h"

namespace isotone::data {

namespace {

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& v) {
  return std::as_bytes(std::span(v));
}

}  // namespace

std::int64_t Batch::learned() const {
  return std::count_if(targets.begin(), targets.end(), [](std::int32_t t) { return t >= 0; });
}

Batch Batch::part(std::int64_t begin, std::int64_t count) const {
  Batch out;
  out.grains = count;
  out.tokens = tokens;
  out.first = first + begin;
  const auto cut = [&](const std::vector<std::int32_t>& from) {
    return std::vector<std::int32_t>(from.begin() + begin * tokens, from.begin() + (begin + count) * tokens);
  };
  out.ids = cut(ids);
  out.targets = cut(targets);
  out.positions = cut(positions);
  out.starts = cut(starts);
  return out;
}

std::string Batch::sha256() const {
  const std::vector<std::int64_t> shape{grains, tokens};
  Sha256 hash;
  hash.update(bytes_of(shape));
  hash.update(bytes_of(ids));
  hash.update(bytes_of(targets));
  hash.update(bytes_of(starts));
  return hash.hex();
}

GrainStore::GrainStore(const std::vector<Document>& documents, std::int64_t tokens, std::uint64_t seed)
    : tokens_(tokens), seed_(seed) {
  require(tokens >= kAttentionBlock && tokens % kAttentionBlock == 0, "a grain of {} tokens is not a multiple of {}",
          tokens, kAttentionBlock);
  std::int64_t used = tokens;  // of the last grain
  const auto pad = [&](std::int64_t until) {
    for (; used < until; ++used) {
      // Padding continues the document before it and is never a target.
      ids_.push_back(0);
      targets_.push_back(-1);
      starts_.push_back(starts_.empty() ? 0 : starts_.back());
    }
  };
  for (const Document& d : documents) {
    const auto length = static_cast<std::int64_t>(d.ids.size());
    // A document's last token has no target, so a single token teaches nothing.
    for (std::int64_t at = 0; at + 1 < length;) {
      pad((used + kAttentionBlock - 1) / kAttentionBlock * kAttentionBlock);
      if (used == tokens) {
        used = 0;
      }
      const std::int64_t n = std::min(length - at, tokens - used);
      const auto start = static_cast<std::int32_t>(used);
      for (std::int64_t i = at; i < at + n; ++i) {
        const auto k = static_cast<std::size_t>(i);
        ids_.push_back(d.ids[k]);
        targets_.push_back(i + 1 < at + n && d.learn[k + 1] ? d.ids[k + 1] : -1);
        starts_.push_back(start);
      }
      used += n;
      at += n;
    }
  }
  pad(tokens);
  require(!ids_.empty(), "the documents hold no token to learn");
}

std::int64_t permute(std::int64_t i, std::int64_t n, std::uint64_t key) {
  require(i >= 0 && i < n, "permute: {} is outside [0, {})", i, n);
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

void GrainStore::append(Batch& to, std::int64_t grain) const {
  const auto begin = static_cast<std::size_t>(grain * tokens_);
  for (std::size_t k = 0; k < static_cast<std::size_t>(tokens_); ++k) {
    to.ids.push_back(ids_[begin + k]);
    to.targets.push_back(targets_[begin + k]);
    to.starts.push_back(starts_[begin + k]);
    to.positions.push_back(static_cast<std::int32_t>(k) - starts_[begin + k]);
  }
  ++to.grains;
}

Batch GrainStore::stream(std::int64_t first, std::int64_t count) const {
  Batch out;
  out.tokens = tokens_;
  for (std::int64_t i = first; i < first + count; ++i) {
    const auto epoch = static_cast<std::uint64_t>(i / size());
    append(out, permute(i % size(), size(), seed_ * 0x9e3779b97f4a7c15ULL + epoch));
  }
  return out;
}

Batch GrainStore::in_order(std::int64_t first, std::int64_t count) const {
  Batch out;
  out.tokens = tokens_;
  for (std::int64_t i = first; i < std::min(first + count, size()); ++i) {
    append(out, i);
  }
  return out;
}

}  // namespace isotone::data
