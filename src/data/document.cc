#include "data/document.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"

namespace isotone::data {

std::vector<Document> read_text(const std::string& path, const text::Tokenizer& tokenizer) {
  const std::string text = read_text_file(path, std::uint64_t{4} << 30);
  std::vector<Document> out;
  const auto end_id = tokenizer.eos_id();
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = text.find('\f', at);
    end = end == std::string::npos ? text.size() : end;
    std::string_view part(text.data() + at, end - at);
    at = end + 1;
    while (!part.empty() && (part.front() == '\n' || part.front() == '\r')) {
      part.remove_prefix(1);
    }
    while (!part.empty() && (part.back() == '\n' || part.back() == '\r')) {
      part.remove_suffix(1);
    }
    if (part.empty()) {
      continue;
    }
    Document d;
    try {
      d.ids = tokenizer.encode(part);
    } catch (const Error& e) {
      throw e.in(path);
    }
    if (end_id.has_value()) {
      d.ids.push_back(*end_id);
    }
    d.learn.assign(d.ids.size(), true);
    out.push_back(std::move(d));
  }
  require(!out.empty(), "{}: there is no text in it", path);
  return out;
}

namespace {

/// The conversation's tokens; what the assistant's turns add is learned. The template is rendered up to each answer
/// with the generation prompt, and after it without: the difference is the answer with its end of turn.
Document encode_conversation(const nlohmann::json& messages, const text::Tokenizer& tokenizer,
                             const text::ChatTemplate& chat) {
  text::RenderOptions whole;
  whole.add_generation_prompt = false;
  text::RenderOptions prompt;
  Document d;
  d.ids = text::encode_chat(tokenizer, chat, messages.dump(), whole);
  d.learn.assign(d.ids.size(), false);
  nlohmann::json so_far = nlohmann::json::array();
  for (const auto& m : messages) {
    if (m.at("role") == "assistant") {
      const std::size_t begin = text::encode_chat(tokenizer, chat, so_far.dump(), prompt).size();
      so_far.push_back(m);
      const std::size_t end = text::encode_chat(tokenizer, chat, so_far.dump(), whole).size();
      require(begin <= end && end <= d.ids.size(), "the chat template does not extend a conversation by its answers");
      std::fill(d.learn.begin() + static_cast<std::ptrdiff_t>(begin),
                d.learn.begin() + static_cast<std::ptrdiff_t>(end), true);
    } else {
      so_far.push_back(m);
    }
  }
  return d;
}

}  // namespace

std::vector<Document> read_chats(const std::string& path, const text::Tokenizer& tokenizer,
                                 const text::ChatTemplate& chat) {
  require(!chat.empty(), "{}: conversations need a chat template, but the model has none", path);
  const std::string text = read_text_file(path, std::uint64_t{4} << 30);
  std::vector<Document> out;
  std::size_t line_number = 0;
  for (std::size_t at = 0; at < text.size();) {
    ++line_number;
    std::size_t end = text.find('\n', at);
    end = end == std::string::npos ? text.size() : end;
    const std::string_view line(text.data() + at, end - at);
    at = end + 1;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) {
      continue;
    }
    try {
      const nlohmann::json parsed = nlohmann::json::parse(line);
      const nlohmann::json& messages = parsed.at("messages");
      require(messages.is_array() && !messages.empty(), "'messages' must be a list of at least one message");
      bool answered = false;
      for (const auto& m : messages) {
        require(m.is_object() && m.contains("role") && m["role"].is_string() && m.contains("content") &&
                    m["content"].is_string(),
                "each message needs a text 'role' and a text 'content'");
        answered = answered || m["role"] == "assistant";
      }
      require(answered, "there is no message of role 'assistant', so nothing to learn");
      out.push_back(encode_conversation(messages, tokenizer, chat));
    } catch (const Error& e) {
      throw e.in(fmt::format("{}, line {}", path, line_number));
    } catch (const nlohmann::json::exception& e) {
      fail("{}, line {}: {}; a line must be {{\"messages\": [{{\"role\": ..., \"content\": ...}}, ...]}}", path,
           line_number, e.what());
    }
  }
  require(!out.empty(), "{}: there is no conversation in it", path);
  return out;
}

}  // namespace isotone::data
