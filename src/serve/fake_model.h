// For tests only: a model that needs no weights, one token a byte, so that jobs can be tested without a real one.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/philox.h"
#include "serve/loaded_model.h"

namespace isotone::serve {

/// Tokens 0 to 255 are bytes, 256 ends an answer. After n tokens the most likely next one is script[n mod length]; the
/// other logits are noise that depends on all tokens so far, so that a wrong cache shows.
class FakeModel : public LanguageModel {
 public:
  static constexpr int kVocab = 257;
  static constexpr std::int32_t kEnd = 256;

  explicit FakeModel(std::vector<std::int32_t> script, std::int64_t context = 4096)
      : script_(std::move(script)), context_(context) {}

  int vocab_size() const override { return kVocab; }
  std::int64_t context_length() const override { return context_; }
  std::unique_ptr<Sequence> start() override;

  /// Called before each token is read, with the sequence's length; may wait or throw.
  std::function<void(std::int64_t length)> before_token;
  /// How far the scripted token stands out.
  float margin = 12.0F;
  std::atomic<std::int64_t> tokens_read{0};

 private:
  friend class FakeSequence;
  std::vector<std::int32_t> script_;
  std::int64_t context_;
};

class FakeSequence : public Sequence {
 public:
  explicit FakeSequence(FakeModel& model) : model_(model) {}

  std::span<const float> extend(std::span<const std::int32_t> tokens) override {
    extend_all(tokens, [](std::int64_t, std::span<const float>) {});
    return logits_;
  }
  void extend_all(std::span<const std::int32_t> tokens, const Visit& visit) override {
    require(!tokens.empty(), "extend: no tokens");
    require(length() + static_cast<std::int64_t>(tokens.size()) <= model_.context_, "extend: the context is full");
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (model_.before_token) {
        model_.before_token(length());
      }
      tokens_.push_back(tokens[i]);
      ++model_.tokens_read;
      std::uint64_t hash = 1469598103934665603U;
      for (const std::int32_t t : tokens_) {
        hash = (hash ^ static_cast<std::uint64_t>(t)) * 1099511628211U;
      }
      const Philox noise(hash);
      logits_.resize(FakeModel::kVocab);
      for (int v = 0; v < FakeModel::kVocab; ++v) {
        logits_[v] = noise.normal(static_cast<std::uint64_t>(v));
      }
      logits_[model_.script_[tokens_.size() % model_.script_.size()]] += model_.margin;
      visit(static_cast<std::int64_t>(i), logits_);
    }
  }
  std::int64_t length() const override { return static_cast<std::int64_t>(tokens_.size()); }
  void truncate(std::int64_t length) override { tokens_.resize(static_cast<std::size_t>(length)); }

 private:
  FakeModel& model_;
  std::vector<std::int32_t> tokens_;
  std::vector<float> logits_;
};

inline std::unique_ptr<Sequence> FakeModel::start() {
  return std::make_unique<FakeSequence>(*this);
}

inline std::vector<std::int32_t> byte_tokens(std::string_view text) {
  return {reinterpret_cast<const unsigned char*>(text.data()),
          reinterpret_cast<const unsigned char*>(text.data()) + text.size()};
}

/// A tokenizer.json whose ids are the bytes (byte-level BPE without merges), and 256 the special token "<end>".
inline text::Tokenizer fake_tokenizer() {
  std::string vocab;
  int other = 256;  // GPT-2's stand-ins for bytes that are no printable Latin-1 characters start here
  for (int b = 0; b < 256; ++b) {
    const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    vocab += fmt::format("{}\"\\u{:04x}\": {}", b == 0 ? "" : ", ", printable ? b : other, b);
    other += printable ? 0 : 1;
  }
  return text::Tokenizer::from_json(
      R"({"version": "1.0", "truncation": null, "padding": null, "normalizer": null, "post_processor": null,
          "added_tokens": [{"id": 256, "content": "<end>", "single_word": false, "lstrip": false, "rstrip": false,
                            "normalized": false, "special": true}],
          "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
          "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
          "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                    "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "merges": [], "vocab": {)" +
      vocab + "}}}");
}
inline text::ChatTemplate fake_chat_template() {
  return text::ChatTemplate("{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}<assistant>");
}

inline std::unique_ptr<LoadedModel> fake_loaded_model(std::unique_ptr<FakeModel> model) {
  return std::unique_ptr<LoadedModel>(
      new LoadedModel{std::move(model), fake_tokenizer(), fake_chat_template(), "fake", {FakeModel::kEnd}, 0.0});
}

}  // namespace isotone::serve
