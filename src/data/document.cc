#include "data/document.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "data/pieces.h"
#include "formats/json_text.h"
#include "text/parquet_texts.h"
#include "text/utf8.h"

namespace isotone::data {

namespace {

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

Document encode_text(std::string_view text, const text::Tokenizer& tokenizer) {
  Document d;
  if (text.empty()) {
    return d;
  }
  d.ids = tokenizer.encode(text);
  if (const auto end_id = tokenizer.eos_id()) {
    d.ids.push_back(*end_id);
  }
  d.learn.assign(d.ids.size(), true);
  return d;
}

/// Calls `encode` for each line that is not blank.
std::int64_t read_lines(const std::string& path, const std::function<Document(std::string_view)>& encode,
                        const DocumentSink& sink) {
  const MappedFile file(path);
  const std::string_view text = text_of(file);
  const auto checked = [&](std::string_view line) {
    require(text::repair_utf8(line) == line, "the line is not UTF-8");
    return encode(line);
  };
  PieceQueue queue(path, "line", checked, sink);
  std::int64_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    ++number;
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) {
      queue.push(line, number);
    }
  }
  queue.flush();
  return queue.documents();
}

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

Document encode_chat_line(std::string_view line, const text::Tokenizer& tokenizer, const text::ChatTemplate& chat) {
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
    return encode_conversation(messages, tokenizer, chat);
  } catch (const nlohmann::json::exception& e) {
    fail("{}; a line must be {{\"messages\": [{{\"role\": ..., \"content\": ...}}, ...]}}", e.what());
  }
}

}  // namespace

void read_text(const std::string& path, const text::Tokenizer& tokenizer, const DocumentSink& sink) {
  const MappedFile file(path);
  const std::string_view text = text_of(file);
  PieceQueue queue(
      path, "", [&](std::string_view piece) { return encode_text(piece, tokenizer); }, sink);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\f', at), text.size());
    std::string_view part = text.substr(at, end - at);
    at = end + 1;
    while (!part.empty() && (part.front() == '\n' || part.front() == '\r')) {
      part.remove_prefix(1);
    }
    while (!part.empty() && (part.back() == '\n' || part.back() == '\r')) {
      part.remove_suffix(1);
    }
    queue.push(part, 0);
  }
  queue.flush();
  require(queue.documents() > 0, "{}: there is no text in it", path);
}

void read_jsonl(const std::string& path, const std::string& field, const text::Tokenizer& tokenizer,
                const DocumentSink& sink) {
  const auto encode = [&](std::string_view line) {
    const Json parsed = parse_json(line, "the line");
    require(parsed.is_object(), "the line is no JSON object");
    require(parsed.contains(field), "there is no '{}'; set the source's field to the key that holds the text", field);
    require(parsed[field].is_string(), "'{}' is {}, not a text", field, json_line(parsed[field]).substr(0, 40));
    return encode_text(parsed[field].get_ref<const std::string&>(), tokenizer);
  };
  require(read_lines(path, encode, sink) > 0, "{}: there is no text in it", path);
}

void read_parquet(const std::string& path, const std::string& field, const text::Tokenizer& tokenizer,
                  const DocumentSink& sink) {
  constexpr std::size_t kRows = 512;
  text::ParquetTexts texts(path, field);
  PieceQueue queue(
      path, "row", [&](std::string_view piece) { return encode_text(piece, tokenizer); }, sink);
  std::int64_t number = 0;
  for (auto rows = texts.next(kRows); !rows.empty(); rows = texts.next(kRows)) {
    for (const std::optional<std::string>& row : rows) {
      ++number;
      if (row.has_value()) {
        queue.push(*row, number);
      }
    }
    queue.flush();  // before the rows are gone
  }
  require(queue.documents() > 0, "{}: there is no text in it", path);
}

void read_chats(const std::string& path, const text::Tokenizer& tokenizer, const text::ChatTemplate& chat,
                const DocumentSink& sink) {
  require(!chat.empty(), "{}: conversations need a chat template, but the model has none", path);
  const auto encode = [&](std::string_view line) { return encode_chat_line(line, tokenizer, chat); };
  require(read_lines(path, encode, sink) > 0, "{}: there is no conversation in it", path);
}

}  // namespace isotone::data
