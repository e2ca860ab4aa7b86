#include "train/run_data.h"

#include "base/error.h"

namespace isotone::train {

namespace {

std::shared_ptr<const data::Grains> tokenized(const data::SourceSpec& spec, std::int64_t tokens,
                                              const data::Encoder& encoder) {
  auto out = std::make_shared<data::MemoryGrains>(tokens);
  data::Packer packer(tokens, [&](std::span<const std::uint32_t> words) { out->add(words); });
  for (const std::string& file : data::files_of(spec)) {
    data::read_file(spec, file, encoder, [&](const data::Document& d) { packer.add(d); });
  }
  packer.finish();
  return out;
}

}  // namespace

RunData open_data(const Recipe& r, const Setup& s) {
  const data::Encoder encoder{s.tokenizer, s.chat};
  RunData out;
  std::vector<data::NamedGrains> sources;
  for (const data::SourceSpec& spec : r.training_sources()) {
    sources.push_back({spec.name, tokenized(spec, r.grain_tokens, encoder)});
  }
  out.stream.emplace(std::move(sources), r.mixture(), r.seed);
  if (r.eval_every > 0) {
    out.validation = tokenized(r.validation_source(), r.grain_tokens, encoder);
  }
  return out;
}

}  // namespace isotone::train
