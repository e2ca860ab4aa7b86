// The calls into the Rust library, and StreamDecoder.
#include "text/tokenizer.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "text/tokenizer_impl.h"
#include "text/utf8.h"

namespace isotone::text {
namespace {

std::vector<rust::Slice> slices(std::span<const std::string> texts) {
  std::vector<rust::Slice> out;
  out.reserve(texts.size());
  for (const std::string& t : texts) {
    out.push_back(rust::slice(t));
  }
  return out;
}

std::uint32_t checked(std::int32_t id) {
  require(id >= 0, "a token id is {}; ids are not negative", id);
  return static_cast<std::uint32_t>(id);
}

}  // namespace

Tokenizer Tokenizer::from_json(std::string_view json, std::string_view config_json) {
  return Tokenizer(std::make_shared<const Impl>(rust::call<rust::TokenizerHandle>(
      rust::isotone_text_tokenizer_from_json, rust::slice(json), rust::slice(config_json))));
}

Tokenizer Tokenizer::from_gguf(const GgufVocab& vocab) {
  const std::vector<rust::Slice> tokens = slices(vocab.tokens);
  const std::vector<rust::Slice> merges = slices(vocab.merges);
  rust::GgufParts parts{};
  parts.model = rust::slice(vocab.model);
  parts.pre = rust::slice(vocab.pre);
  parts.tokens = tokens.data();
  parts.token_count = tokens.size();
  parts.types = vocab.types.data();
  parts.type_count = vocab.types.size();
  parts.merges = merges.data();
  parts.merge_count = merges.size();
  const std::optional<std::int64_t> named[4] = {vocab.bos_id, vocab.eos_id, vocab.unk_id, vocab.pad_id};
  for (int i = 0; i < 4; ++i) {
    parts.named[i] = named[i].value_or(-1);
  }
  parts.add_bos = vocab.add_bos ? 1 : 0;
  parts.add_eos = vocab.add_eos ? 1 : 0;
  return Tokenizer(
      std::make_shared<const Impl>(rust::call<rust::TokenizerHandle>(rust::isotone_text_tokenizer_from_gguf, &parts)));
}

const Tokenizer::Impl& Tokenizer::impl() const {
  require(impl_ != nullptr, "this tokenizer is empty; make one with Tokenizer::from_json or Tokenizer::from_gguf");
  return *impl_;
}

std::string Tokenizer::to_json() const {
  return rust::take(rust::call<rust::Bytes>(rust::isotone_text_tokenizer_json, impl().handle.tokenizer));
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, bool add_special, bool parse_special) const {
  return rust::take(rust::call<rust::Ids>(
      rust::isotone_text_encode, impl().handle.tokenizer, rust::slice(text), static_cast<std::uint8_t>(add_special),
      static_cast<std::uint8_t>(parse_special), static_cast<const std::uint32_t*>(nullptr), std::size_t{0}));
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special) const {
  std::vector<std::uint32_t> unsigned_ids(ids.size());
  std::transform(ids.begin(), ids.end(), unsigned_ids.begin(), checked);
  return rust::take(rust::call<rust::Bytes>(rust::isotone_text_decode, impl().handle.tokenizer,
                                            static_cast<const std::uint32_t*>(unsigned_ids.data()), unsigned_ids.size(),
                                            static_cast<std::uint8_t>(skip_special)));
}

std::string Tokenizer::token_bytes(std::int32_t id) const {
  return rust::take(rust::call<rust::Bytes>(rust::isotone_text_token_bytes, impl().handle.tokenizer, checked(id)));
}

std::optional<std::int32_t> Tokenizer::token_id(std::string_view token) const {
  const auto id = rust::call<std::int64_t>(rust::isotone_text_token_id, impl().handle.tokenizer, rust::slice(token));
  return id < 0 ? std::nullopt : std::optional(static_cast<std::int32_t>(id));
}

bool Tokenizer::is_special(std::int32_t id) const {
  return std::binary_search(impl().specials.begin(), impl().specials.end(), id);
}

const std::vector<std::int32_t>& Tokenizer::special_ids() const {
  return impl().specials;
}

std::int32_t Tokenizer::vocab_size() const {
  return static_cast<std::int32_t>(impl().handle.vocab_size);
}

std::optional<std::int32_t> Tokenizer::bos_id() const {
  return impl().named(0);
}
std::optional<std::int32_t> Tokenizer::eos_id() const {
  return impl().named(1);
}
std::optional<std::int32_t> Tokenizer::unk_id() const {
  return impl().named(2);
}
std::optional<std::int32_t> Tokenizer::pad_id() const {
  return impl().named(3);
}

std::string Tokenizer::bos_token() const {
  return bos_id() ? token_bytes(*bos_id()) : std::string();
}
std::string Tokenizer::eos_token() const {
  return eos_id() ? token_bytes(*eos_id()) : std::string();
}

StreamDecoder::StreamDecoder(Tokenizer tokenizer, bool skip_special)
    : tokenizer_(std::move(tokenizer)), skip_special_(skip_special) {}

std::string StreamDecoder::push(std::int32_t id) {
  return tokenizer_.impl().handle.byte_level != 0 ? push_bytes(id) : push_window(id);
}

std::string StreamDecoder::push_bytes(std::int32_t id) {
  checked(id);
  if (skip_special_ && tokenizer_.is_special(id)) {
    return {};  // the library leaves it out before it joins bytes, so what is held back goes on
  }
  held_ += tokenizer_.token_bytes(id);
  const std::size_t tail = incomplete_tail(held_);
  std::string out = repair_utf8(std::string_view(held_).substr(0, held_.size() - tail));
  held_.erase(0, held_.size() - tail);
  return out;
}

std::string StreamDecoder::push_window(std::int32_t id) {
  checked(id);
  ids_.push_back(id);
  const std::string text = tokenizer_.decode(ids_, skip_special_);
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  if (text.size() <= prefix_.size() || text.compare(0, prefix_.size(), prefix_) != 0 || text.ends_with(kReplacement)) {
    return {};
  }
  std::string out = text.substr(prefix_.size());
  // The tokens of the last piece stay as context: what a word decodes to may depend on the one before it.
  ids_.erase(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(prefix_ids_));
  prefix_ids_ = ids_.size();
  prefix_ = tokenizer_.decode(ids_, skip_special_);
  return out;
}

std::string StreamDecoder::finish() {
  std::string out;
  if (tokenizer_.impl().handle.byte_level != 0) {
    out = repair_utf8(held_);
  } else if (!ids_.empty()) {
    const std::string text = tokenizer_.decode(ids_, skip_special_);
    out = text.compare(0, prefix_.size(), prefix_) == 0 ? text.substr(prefix_.size()) : std::string();
  }
  held_.clear();
  ids_.clear();
  prefix_.clear();
  prefix_ids_ = 0;
  return out;
}

}  // namespace isotone::text
