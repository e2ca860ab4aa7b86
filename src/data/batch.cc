#include "data/batch.h"

#include <algorithm>
#include <span>

#include "base/error.h"
#include "base/hash.h"

namespace isotone::data {

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

std::string Batch::grain_sha256(std::int64_t grain) const {
  Sha256 hash;
  for (const std::vector<std::int32_t>* row : {&ids, &targets, &starts}) {
    hash.update(std::as_bytes(
        std::span(*row).subspan(static_cast<std::size_t>(grain * tokens), static_cast<std::size_t>(tokens))));
  }
  return hash.hex();
}

std::string batch_sha256(std::int64_t tokens, const std::vector<std::string>& grain_hashes) {
  Sha256 hash;
  hash.update(fmt::format("{} grains of {} tokens\n", grain_hashes.size(), tokens));
  for (const std::string& grain : grain_hashes) {
    hash.update(grain);
  }
  return hash.hex();
}

GlobalBatch::GlobalBatch(const Batch& whole)
    : GlobalBatch(whole.grains, whole.tokens,
                  [&whole](std::int64_t begin, std::int64_t count) { return whole.part(begin, count); }) {}

GlobalBatch::GlobalBatch(std::int64_t grains, std::int64_t tokens,
                         std::function<Batch(std::int64_t, std::int64_t)> read)
    : grains_(grains), tokens_(tokens), read_(std::move(read)) {}

Batch GlobalBatch::part(std::int64_t begin, std::int64_t count) const {
  require(begin >= 0 && count >= 0 && begin + count <= grains_, "grains {} to {} of a batch of {}", begin,
          begin + count, grains_);
  Batch out = read_(begin, count);
  out.first = begin;
  return out;
}

}  // namespace isotone::data
