// The calls into the Rust template engine, and the ids of a conversation.
#include "text/chat_template.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/rust_abi.h"
#include "text/tokenizer_impl.h"

namespace isotone::text {

struct ChatTemplate::Impl {
  explicit Impl(std::string_view text)
      : source(text), handle(rust::call<rust::Template*>(rust::isotone_text_template_new, rust::slice(text))) {}
  ~Impl() { rust::isotone_text_template_free(handle); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  /// Hides the special tokens of `tokenizer` in the input unless it is null; frees nothing of the result.
  [[nodiscard]] rust::Rendered render(std::string_view messages, const RenderOptions& o, std::string_view bos,
                                      std::string_view eos, const rust::Tokenizer* tokenizer) const {
    rust::RenderParts parts{};
    parts.messages = rust::slice(messages);
    parts.tools = rust::slice(o.tools_json);
    parts.documents = rust::slice(o.documents_json);
    parts.variables = rust::slice(o.variables_json);
    parts.bos_token = rust::slice(bos);
    parts.eos_token = rust::slice(eos);
    parts.add_generation_prompt = o.add_generation_prompt ? 1 : 0;
    parts.has_now = o.now ? 1 : 0;
    parts.now = o.now.value_or(0);
    parts.tokenizer = tokenizer;
    return rust::call<rust::Rendered>(rust::isotone_text_render, handle, &parts);
  }

  std::string source;
  rust::Template* handle;
};

namespace {

constexpr const char* kEmpty = "there is no chat template; give the model one, or send plain text";

}  // namespace

std::string messages_json(std::span<const ChatMessage> messages) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  try {
    for (const ChatMessage& m : messages) {
      Json entry = {{"role", m.role}, {"content", m.content}};
      if (!m.extra.empty()) {
        const Json extra = Json::parse(m.extra);
        require(extra.is_object(), "a message's further keys must be a JSON object, not {}", extra.type_name());
        entry.update(extra);
      }
      list.push_back(std::move(entry));
    }
    return list.dump();
  } catch (const Json::exception& e) {
    fail("the messages cannot be written as JSON: {}", e.what());
  }
}

ChatTemplate::ChatTemplate(std::string_view source) : impl_(std::make_shared<const Impl>(source)) {}

const std::string& ChatTemplate::source() const {
  require(impl_ != nullptr, "{}", kEmpty);
  return impl_->source;
}

std::string ChatTemplate::render(std::string_view messages, const RenderOptions& options) const {
  require(impl_ != nullptr, "{}", kEmpty);
  const rust::Rendered r = impl_->render(messages, options, options.bos_token, options.eos_token, nullptr);
  rust::isotone_text_free_ids(r.stand_ins);
  return rust::take(r.text);
}

std::string ChatTemplate::render(std::span<const ChatMessage> messages, const RenderOptions& options) const {
  return render(messages_json(messages), options);
}

std::vector<std::int32_t> encode_chat(const Tokenizer& tokenizer, const ChatTemplate& chat, std::string_view messages,
                                      const RenderOptions& options) {
  require(chat.impl_ != nullptr, "{}", kEmpty);
  const rust::Tokenizer* handle = tokenizer.impl().handle.tokenizer;
  const std::string bos = options.bos_token.empty() ? tokenizer.bos_token() : options.bos_token;
  const std::string eos = options.eos_token.empty() ? tokenizer.eos_token() : options.eos_token;
  const rust::Rendered r = chat.impl_->render(messages, options, bos, eos, handle);
  const std::string text = rust::take(r.text);
  const std::vector<std::uint32_t> stand_ins(r.stand_ins.ptr, r.stand_ins.ptr + r.stand_ins.len);
  rust::isotone_text_free_ids(r.stand_ins);
  return rust::take(rust::call<rust::Ids>(rust::isotone_text_encode, handle, rust::slice(text), std::uint8_t{0},
                                          std::uint8_t{1}, stand_ins.data(), stand_ins.size() / 2));
}

std::vector<std::int32_t> encode_chat(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                      std::span<const ChatMessage> messages, const RenderOptions& options) {
  return encode_chat(tokenizer, chat, messages_json(messages), options);
}

}  // namespace isotone::text
