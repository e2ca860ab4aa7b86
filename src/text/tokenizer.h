// Text to token ids and back: the C++ face of the Rust tokenizer library, and incremental decoding.
// It knows nothing of models; chat templates are in chat_template.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace isotone::text {

/// A vocabulary as a GGUF file holds it ("tokenizer.ggml.*"). The spans are read during the call only.
struct GgufVocab {
  std::string_view model = "gpt2";      ///< only "gpt2", byte-level BPE, can be built so far
  std::string_view pre;                 ///< pre-tokenizer: smollm, gpt-2, llama-bpe, qwen2, default (and aliases)
  std::span<const std::string> tokens;  ///< by id; UTF-8
  std::span<const std::int32_t>
      types;  ///< by id, or empty: 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte
  std::span<const std::string> merges;  ///< "left right", best first
  std::optional<std::int64_t> bos_id, eos_id, unk_id, pad_id;
  bool add_bos = false;  ///< encode(…, add_special) puts bos in front
  bool add_eos = false;  ///< … and eos at the end
};

/// An immutable tokenizer; copies share it, and all members may be called from several threads at once.
/// A default-constructed one is empty: using it throws Error.
///
/// Text in must be UTF-8 and at most kMaxTextBytes long; anything else throws Error with the offset of the first bad
/// byte: a tokenizer that replaced it would hide the damage from whoever trains on it or compares ids.
class Tokenizer {
 public:
  static constexpr std::size_t kMaxTextBytes = std::size_t{64} << 20;

  Tokenizer() = default;

  /// From the text of a tokenizer.json. `config_json` is the text of tokenizer_config.json (or empty): it names the
  /// bos, eos, unk and pad tokens. Truncation and padding settings are ignored: nothing is cut or added silently.
  static Tokenizer from_json(std::string_view json, std::string_view config_json = {});
  /// From a GGUF's tokens, merges and pre-tokenizer name. Throws Error listing the known names for an unknown one.
  static Tokenizer from_gguf(const GgufVocab& vocab);

  /// The text of a tokenizer.json with the same ids. Beside it, tokenizer_config.json should name the class
  /// "PreTrainedTokenizerFast", which makes `transformers` take the file as it is.
  [[nodiscard]] std::string to_json() const;

  /// Token ids of `text`. `add_special` adds what the tokenizer puts around a text (bos, eos), if anything.
  /// Unless `parse_special`, a special token's text inside `text` is ordinary characters and never becomes its id.
  /// Added tokens that are not special ("<think>" in some vocabularies) are words and always match.
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text, bool add_special = false,
                                                 bool parse_special = false) const;

  /// Text of `ids`, as the Hugging Face library decodes it: incomplete UTF-8 becomes U+FFFD. Ids that have no token
  /// (padding of the embedding table) give nothing; negative ids throw Error.
  [[nodiscard]] std::string decode(std::span<const std::int32_t> ids, bool skip_special = false) const;

  /// The bytes a token stands for, possibly a part of a UTF-8 sequence; empty for an id that has no token. Throws Error
  /// for a negative id.
  [[nodiscard]] std::string token_bytes(std::int32_t id) const;
  /// The id of a token by its text as stored in the vocabulary ("<|im_end|>", "Ġthe"), added tokens first.
  [[nodiscard]] std::optional<std::int32_t> token_id(std::string_view token) const;
  /// Whether the id is a special token: never made from user text, left out by `skip_special`.
  [[nodiscard]] bool is_special(std::int32_t id) const;
  /// Ids of all special tokens, ascending.
  [[nodiscard]] const std::vector<std::int32_t>& special_ids() const;
  /// Largest id plus one.
  [[nodiscard]] std::int32_t vocab_size() const;

  [[nodiscard]] std::optional<std::int32_t> bos_id() const;
  [[nodiscard]] std::optional<std::int32_t> eos_id() const;
  [[nodiscard]] std::optional<std::int32_t> unk_id() const;
  [[nodiscard]] std::optional<std::int32_t> pad_id() const;
  /// The special token's text for templates ("<|im_start|>"); empty where there is none.
  [[nodiscard]] std::string bos_token() const;
  [[nodiscard]] std::string eos_token() const;

  [[nodiscard]] bool empty() const { return impl_ == nullptr; }

 private:
  friend class StreamDecoder;
  friend std::vector<std::int32_t> encode_chat(const Tokenizer&, const class ChatTemplate&, std::string_view,
                                               const struct RenderOptions&);
  struct Impl;
  explicit Tokenizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  [[nodiscard]] const Impl& impl() const;
  std::shared_ptr<const Impl> impl_;
};

/// Decodes ids one at a time. What `push` returns is always whole UTF-8 sequences; a sequence cut in two tokens is held
/// back until its end. All pieces in order equal `decode` of all ids, wherever they are cut.
class StreamDecoder {
 public:
  explicit StreamDecoder(Tokenizer tokenizer, bool skip_special = true);
  /// The text that became complete with this token; often empty inside an emoji.
  std::string push(std::int32_t id);
  /// What is still held back (an incomplete sequence as one U+FFFD); the decoder starts over afterwards.
  std::string finish();

 private:
  std::string push_bytes(std::int32_t id);
  std::string push_window(std::int32_t id);

  Tokenizer tokenizer_;
  bool skip_special_;
  std::string held_;               ///< byte-level vocabularies: the incomplete tail
  std::vector<std::int32_t> ids_;  ///< others: the tokens of the window that is decoded again
  std::string prefix_;             ///< text of the window that was given out already
  std::size_t prefix_ids_ = 0;     ///< tokens of the window behind `prefix_`
};

}  // namespace isotone::text
