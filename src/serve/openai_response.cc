// Shapes follow OpenAI's API reference; `system_fingerprint` carries the version of the numerics contract.
#include "serve/openai_response.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "base/numerics.h"
#include "base/tree.h"
#include "text/tokenizer.h"

namespace isotone::serve {
namespace {

using Json = nlohmann::ordered_json;

/// JSON text; bytes that are no UTF-8 (half a character of one token) become U+FFFD, as OpenAI does.
std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string event(const Json& json) {
  return "data: " + dump(json) + "\n\n";
}

Json head_json(const AnswerHead& head, bool piece) {
  const char* object = head.chat ? (piece ? "chat.completion.chunk" : "chat.completion") : "text_completion";
  return {{"id", head.id},
          {"object", object},
          {"created", head.created},
          {"model", head.model},
          {"system_fingerprint",
           fmt::format("isotone-numerics-{}-{}", kNumericsVersion, numerics_profile_name(numerics_profile()))}};
}

Json chat_entry(const text::Tokenizer& tokenizer, std::int32_t token, float logprob) {
  const std::string bytes = tokenizer.token_bytes(token);
  Json list = Json::array();
  for (const char c : bytes) {
    list.push_back(static_cast<unsigned char>(c));
  }
  return {{"token", bytes}, {"logprob", logprob}, {"bytes", std::move(list)}};
}

Json chat_logprobs(const text::Tokenizer& tokenizer, std::span<const nn::Sample> tokens) {
  Json content = Json::array();
  for (const nn::Sample& s : tokens) {
    Json entry = chat_entry(tokenizer, s.token, s.logprob);
    entry["top_logprobs"] = Json::array();
    for (const nn::TokenLogprob& t : s.top) {
      entry["top_logprobs"].push_back(chat_entry(tokenizer, t.token, t.logprob));
    }
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

Json completion_logprobs(const text::Tokenizer& tokenizer, std::span<const nn::Sample> tokens) {
  Json texts = Json::array();
  Json values = Json::array();
  Json tops = Json::array();
  for (const nn::Sample& s : tokens) {
    texts.push_back(tokenizer.token_bytes(s.token));
    values.push_back(s.logprob);
    Json top = Json::object();
    for (const nn::TokenLogprob& t : s.top) {
      // A key must be text: two tokens with broken UTF-8 may share one; the more likely one is kept.
      const std::string key = tokenizer.token_bytes(t.token);
      if (!top.contains(key)) {
        top[key] = t.logprob;
      }
    }
    tops.push_back(std::move(top));
  }
  return {{"tokens", std::move(texts)}, {"token_logprobs", std::move(values)}, {"top_logprobs", std::move(tops)}};
}

Json logprobs(const AnswerHead& head, const text::Tokenizer& tokenizer, std::span<const nn::Sample> tokens) {
  if (!head.logprobs) {
    return nullptr;
  }
  return head.chat ? chat_logprobs(tokenizer, tokens) : completion_logprobs(tokenizer, tokens);
}

Json usage_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

Json choice_piece(const AnswerHead& head, Json delta, Json logprobs_json, Json reason) {
  Json choice = {{"index", 0}};
  if (head.chat) {
    choice["delta"] = std::move(delta);
  } else {
    choice["text"] = std::move(delta);
  }
  choice["logprobs"] = std::move(logprobs_json);
  choice["finish_reason"] = std::move(reason);
  return choice;
}

std::string chunk(const AnswerHead& head, Json choice) {
  Json json = head_json(head, true);
  json["choices"] = Json::array({std::move(choice)});
  return event(json);
}

Json error_json(const ApiError& e) {
  const auto or_null = [](const std::string& s) { return s.empty() ? Json(nullptr) : Json(s); };
  return {
      {"error", {{"message", e.message}, {"type", e.type}, {"param", or_null(e.param)}, {"code", or_null(e.code)}}}};
}

}  // namespace

AnswerHead make_head(const ApiRequest& request, const std::string& model) {
  AnswerHead head;
  std::random_device device;
  head.id = fmt::format("{}-{:08x}{:08x}{:08x}", request.chat ? "chatcmpl" : "cmpl", device(), device(), device());
  head.created =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  head.model = model;
  head.chat = request.chat;
  head.logprobs = request.generation.sampling.logprobs;
  return head;
}

std::string answer_body(const AnswerHead& head, const Generation& g, const text::Tokenizer& tokenizer) {
  Json choice = {{"index", 0}};
  if (head.chat) {
    choice["message"] = {{"role", "assistant"}, {"content", g.text}, {"refusal", nullptr}};
  } else {
    choice["text"] = g.text;
  }
  choice["logprobs"] = logprobs(head, tokenizer, g.tokens);
  choice["finish_reason"] = finish_reason_name(g.reason);
  Json json = head_json(head, false);
  json["choices"] = Json::array({std::move(choice)});
  json["usage"] = usage_json({g.prompt_tokens, static_cast<std::int64_t>(g.tokens.size()), g.reused_tokens});
  return dump(json);
}

std::string role_event(const AnswerHead& head) {
  return chunk(head, choice_piece(head, {{"role", "assistant"}, {"content", ""}}, nullptr, nullptr));
}

std::string piece_event(const AnswerHead& head, std::string_view text, std::span<const nn::Sample> tokens,
                        const text::Tokenizer& tokenizer) {
  Json delta = head.chat ? Json{{"content", text}} : Json(text);
  return chunk(head, choice_piece(head, std::move(delta), logprobs(head, tokenizer, tokens), nullptr));
}

std::string finish_event(const AnswerHead& head, FinishReason reason) {
  return chunk(head,
               choice_piece(head, head.chat ? Json(Json::object()) : Json(""), nullptr, finish_reason_name(reason)));
}

std::string usage_event(const AnswerHead& head, const Usage& usage) {
  Json json = head_json(head, true);
  json["choices"] = Json::array();
  json["usage"] = usage_json(usage);
  return event(json);
}

std::string error_event(const ApiError& error) {
  return event(error_json(error));
}

std::string error_body(const ApiError& error) {
  return dump(error_json(error));
}

std::string model_body(const std::string& model, std::int64_t created) {
  return dump({{"id", model}, {"object", "model"}, {"created", created}, {"owned_by", "isotone"}});
}

std::string models_body(const std::string& model, std::int64_t created) {
  Json list = Json::array();
  list.push_back({{"id", model}, {"object", "model"}, {"created", created}, {"owned_by", "isotone"}});
  return dump({{"object", "list"}, {"data", std::move(list)}});
}

std::string health_body(const std::string& model, bool stopping) {
  return dump({{"status", stopping ? "stopping" : "ok"}, {"model", model}});
}

}  // namespace isotone::serve
