#include "data/grains.h"

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"
#include "base/tree.h"

namespace isotone::data {

std::string Grains::sha256() const {
  Sha256 hash;
  for (std::int64_t i = 0; i < size(); ++i) {
    hash.update(std::as_bytes(words(i)));
  }
  return hash.hex();
}

void append_grain(const Grains& grains, std::int64_t i, Batch& to) {
  const std::span<const std::uint32_t> words = grains.words(i);
  std::int32_t start = 0;
  for (std::size_t k = 0; k < words.size(); ++k) {
    const auto at = static_cast<std::int32_t>(k);
    if ((words[k] & kStarts) != 0) {
      start = at;
    }
    const bool learned = (words[k] & kLearned) != 0 && k + 1 < words.size();
    to.ids.push_back(static_cast<std::int32_t>(words[k] & kIdMask));
    to.targets.push_back(learned ? static_cast<std::int32_t>(words[k + 1] & kIdMask) : -1);
    to.starts.push_back(start);
    to.positions.push_back(at - start);
  }
  ++to.grains;
}

Packer::Packer(std::int64_t tokens, std::function<void(std::span<const std::uint32_t>)> sink)
    : tokens_(static_cast<std::size_t>(tokens)), sink_(std::move(sink)) {
  require(tokens >= kAttentionBlock && tokens % kAttentionBlock == 0, "a grain of {} tokens is not a multiple of {}",
          tokens, kAttentionBlock);
}

void Packer::pad(std::size_t until) {
  grain_.resize(std::max(grain_.size(), until));  // word 0: goes on with the document before it, teaches nothing
}

void Packer::hand_over_full() {
  if (grain_.size() == tokens_) {
    sink_(grain_);
    ++grains_;
    grain_.clear();
  }
}

void Packer::add(const Document& d) {
  ++documents_;
  const std::size_t length = d.ids.size();
  constexpr std::size_t kBlock = kAttentionBlock;
  // A document's last token has no target, so a single token teaches nothing.
  for (std::size_t at = 0; at + 1 < length;) {
    pad((grain_.size() + kBlock - 1) / kBlock * kBlock);
    hand_over_full();
    const std::size_t n = std::min(length - at, tokens_ - grain_.size());
    for (std::size_t i = at; i < at + n; ++i) {
      require(d.ids[i] >= 0 && static_cast<std::uint32_t>(d.ids[i]) <= kIdMask,
              "token {} of a document has the id {}; ids are of at most 30 bits", i, d.ids[i]);
      const bool learned = i + 1 < at + n && d.learn[i + 1];
      grain_.push_back(static_cast<std::uint32_t>(d.ids[i]) | (learned ? kLearned : 0U) | (i == at ? kStarts : 0U));
    }
    packed_ += static_cast<std::int64_t>(n);
    at += n;
  }
}

void Packer::finish() {
  if (!grain_.empty()) {
    pad(tokens_);
    hand_over_full();
  }
  require(grains_ > 0, "the documents hold no token to learn");
}

}  // namespace isotone::data
