// Chat templates: messages to the text a model was trained on, as `apply_chat_template` of the transformers library
// renders it, and to token ids in which nothing a user typed can become a special token.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace isotone::text {

/// One message. `extra` is a JSON object text with further keys ("tool_calls", "name", …) or empty.
struct ChatMessage {
  std::string role;
  std::string content;
  std::string extra = {};
};

/// The messages as the JSON list that templates read. Throws Error where `extra` is no JSON object.
std::string messages_json(std::span<const ChatMessage> messages);

struct RenderOptions {
  bool add_generation_prompt = true;
  std::string tools_json;      ///< JSON list of function schemas, or empty: the template sees `tools` as none
  std::string documents_json;  ///< JSON list, or empty
  std::string bos_token;       ///< text; encode_chat takes it from the tokenizer where empty
  std::string eos_token;
  std::string variables_json;  ///< JSON object of further variables ("enable_thinking": false), or empty
  /// Unix seconds that strftime_now shows (in local time); the clock where absent.
  std::optional<std::int64_t> now;
};

/// A compiled Jinja template in the dialect of transformers: trim_blocks, lstrip_blocks, loop controls,
/// {% generation %}, raise_exception, strftime_now, tojson without HTML escapes, Python's methods on strings and
/// mappings, Python's way to print values. Copies share it; rendering is safe from several threads.
/// A template is hostile input: an endless loop, unbounded recursion or output over 64 MiB throw Error. Not bounded is
/// the memory of a string that a template doubles in a loop.
class ChatTemplate {
 public:
  /// Empty: rendering throws Error.
  ChatTemplate() = default;
  /// Throws Error with line and reason where the source is no valid template.
  explicit ChatTemplate(std::string_view source);

  [[nodiscard]] bool empty() const { return impl_ == nullptr; }
  [[nodiscard]] const std::string& source() const;

  /// The rendered text. `messages_json`: a JSON list of at least one object. Throws Error for broken JSON, and with the
  /// template's own words where it calls raise_exception.
  [[nodiscard]] std::string render(std::string_view messages_json, const RenderOptions& options = {}) const;
  [[nodiscard]] std::string render(std::span<const ChatMessage> messages, const RenderOptions& options = {}) const;

 private:
  friend std::vector<std::int32_t> encode_chat(const Tokenizer&, const ChatTemplate&, std::string_view,
                                               const RenderOptions&);
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

/// Token ids of a rendered conversation: the template's special tokens become their ids, text from messages, tools,
/// documents and variables never does.
///
/// How: wherever a string of those inputs (key or value) holds the text of a special token, or ends in the beginning
/// of one, the first character of that text is exchanged for a private-use character that occurs nowhere else. The
/// template is rendered, special tokens are found in the rendered text (only the template's own are left to find), and
/// the stand-ins are turned back before the text between them is tokenized. Input without such text is untouched, so
/// its ids equal those of transformers. Where a template itself looks for a special token inside a content, it does not
/// find it. Tokens that are added but not special ("</think>" where it is so) are left alone, as in `encode`.
std::vector<std::int32_t> encode_chat(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                      std::string_view messages_json, const RenderOptions& options = {});
std::vector<std::int32_t> encode_chat(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                      std::span<const ChatMessage> messages, const RenderOptions& options = {});

}  // namespace isotone::text
