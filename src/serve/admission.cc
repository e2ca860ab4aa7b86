// The checks that need the model, and the last translation of errors into the API's shape.
#include "serve/admission.h"

#include <algorithm>
#include <span>

#include "base/error.h"

namespace isotone::serve {

std::vector<std::int32_t> encode_prompt(const LoadedModel& model, std::string_view text) {
  return model.tokenizer.encode(text, /*add_special=*/true);
}

std::vector<std::int32_t> encode_chat(const LoadedModel& model, const std::vector<text::ChatMessage>& messages) {
  require(!model.chat.empty(),
          "the model '{}' has no chat template, so it cannot be talked to in turns; use plain completion (isotone "
          "generate without --chat, /v1/completions)",
          model.name);
  return text::encode_chat(model.tokenizer, model.chat, std::span<const text::ChatMessage>(messages));
}

Admission admit(const LoadedModel& model, std::string_view body, bool chat, std::int64_t max_tokens) {
  Admission a;
  a.request = parse_request(body, chat);
  ApiRequest& r = a.request;
  if (!r.model.empty() && r.model != model.name) {
    throw ApiError{404, fmt::format("the model '{}' is not here; this server has '{}'", r.model, model.name),
                   "invalid_request_error", "model", "model_not_found"};
  }
  const char* prompt_name = chat ? "messages" : "prompt";
  GenerationRequest& g = r.generation;
  try {
    if (chat) {
      g.prompt = encode_chat(model, r.messages);
    } else if (r.prompt) {
      g.prompt = encode_prompt(model, *r.prompt);
    } else {
      g.prompt = *r.prompt_ids;
    }
  } catch (const Error& e) {  // a template that refuses the order of roles, most likely
    throw ApiError{400, e.what(), "invalid_request_error", prompt_name, "invalid_value"};
  }
  g.stop_ids = model.stop_ids;
  const std::int64_t context = model.model->context_length();
  const auto length = static_cast<std::int64_t>(g.prompt.size());
  if (length >= context) {
    throw ApiError{
        400, fmt::format("this model's context holds {} tokens and the prompt has {}; shorten it", context, length),
        "invalid_request_error", prompt_name, "context_length_exceeded"};
  }
  if (max_tokens > 0 && g.max_tokens > max_tokens) {
    throw ApiError{400, fmt::format("max_tokens is {}; this server allows at most {}", g.max_tokens, max_tokens),
                   "invalid_request_error", "max_tokens", "invalid_value"};
  }
  if (g.max_tokens < 0 && max_tokens > 0) {
    g.max_tokens = std::min(max_tokens, context - length);
  }
  try {
    validate(g, *model.model);
  } catch (const Error& e) {
    // Messages begin with the parameter's name where it is one.
    const std::string message = e.what();
    std::string param = message.substr(0, message.find(' '));
    if (param != "temperature" && param != "top_k" && param != "top_p" && param != "min_p" && param != "logit_bias" &&
        param != "repetition_penalty" && param != "frequency_penalty" && param != "presence_penalty") {
      param = message.find("max_tokens") != std::string::npos ? "max_tokens" : prompt_name;
    }
    throw ApiError{400, message, "invalid_request_error", param, "invalid_value"};
  }
  a.head = make_head(r, model.name);
  return a;
}

}  // namespace isotone::serve
