#include "train/batch_census.h"

#include <vector>

#include "base/error.h"
#include "dist/agree.h"

namespace isotone::train {

BatchCensus take_census(const data::GlobalBatch& batch, std::span<const Span> mine, dist::Communicator& ranks) {
  // Of each grain a line: its number, what it teaches, its hash.
  std::string lines;
  dist::together(ranks, [&] {
    for (const Span span : mine) {
      for (std::int64_t i = span.begin; i < span.end; ++i) {
        const data::Batch grain = batch.part(i, 1);
        lines += fmt::format("{} {} {}\n", i, grain.learned(), grain.grain_sha256(0));
      }
    }
  });
  BatchCensus out;
  std::vector<std::string> hashes(static_cast<std::size_t>(batch.grains()));
  for (const std::string& text : dist::texts_of_ranks(ranks, lines)) {
    for (std::size_t at = 0; at < text.size();) {
      std::size_t after = 0;
      const std::size_t number = std::stoull(text.substr(at, 20), &after);
      at += after + 1;
      out.learned += std::stoll(text.substr(at, 20), &after);
      at += after + 1;
      hashes.at(number) = text.substr(at, 64);
      at += 65;
    }
  }
  out.sha256 = data::batch_sha256(batch.tokens(), hashes);
  return out;
}

}  // namespace isotone::train
