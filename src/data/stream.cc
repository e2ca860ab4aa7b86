#include "data/stream.h"

#include <algorithm>

#include "base/error.h"

namespace isotone::data {

Stream::Stream(std::vector<NamedGrains> sources, Mixture mixture, std::uint64_t seed)
    : sources_(std::move(sources)), mixture_(std::move(mixture)), seed_(seed) {
  require(!sources_.empty(), "a stream needs a source");
  for (const NamedGrains& s : sources_) {
    require(s.grains->size() > 0 && s.grains->tokens() == sources_[0].grains->tokens(),
            "source '{}' has {} grains of {} tokens, another one grains of {}", s.name, s.grains->size(),
            s.grains->tokens(), sources_[0].grains->tokens());
  }
}

Stream::Place Stream::at(std::int64_t place) const {
  const Mixture::Place p = mixture_.at(place);
  const NamedGrains& s = sources_.at(p.source);
  return {p.source, shuffled(p.index, s.grains->size(), seed_, s.name), p.index / s.grains->size()};
}

GlobalBatch Stream::batch(std::int64_t first, std::int64_t count) const {
  const std::int64_t tokens = sources_[0].grains->tokens();
  return {count, tokens, [this, first, tokens](std::int64_t begin, std::int64_t n) {
            Batch out;
            out.tokens = tokens;
            for (std::int64_t i = first + begin; i < first + begin + n; ++i) {
              const Place p = at(i);
              append_grain(*sources_[p.source].grains, p.grain, out);
            }
            return out;
          }};
}

GlobalBatch in_order(const Grains& grains, std::int64_t count) {
  return {std::min(count, grains.size()), grains.tokens(), [&grains](std::int64_t begin, std::int64_t n) {
            Batch out;
            out.tokens = grains.tokens();
            for (std::int64_t i = begin; i < begin + n; ++i) {
              append_grain(grains, i, out);
            }
            return out;
          }};
}

}  // namespace isotone::data
