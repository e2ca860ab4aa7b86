// Answers of the OpenAI API as JSON text: whole, in pieces, errors, lists. JSON itself stays in the source file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "serve/generation.h"
#include "serve/openai_request.h"

namespace isotone::serve {

/// What is the same in every piece of one answer.
struct AnswerHead {
  std::string id;
  std::int64_t created = 0;  // seconds since 1970
  std::string model;
  bool chat = false;
  bool logprobs = false;
};

struct Usage {
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
  std::int64_t cached_tokens = 0;
};

/// A new head with an id of our own making.
AnswerHead make_head(const ApiRequest& request, const std::string& model);

std::string answer_body(const AnswerHead& head, const Generation& generation, const text::Tokenizer& tokenizer);

/// One event of a stream ("data: {...}\n\n"). The first one of a chat names the role.
std::string role_event(const AnswerHead& head);
std::string piece_event(const AnswerHead& head, std::string_view text, std::span<const nn::Sample> tokens,
                        const text::Tokenizer& tokenizer);
std::string finish_event(const AnswerHead& head, FinishReason reason);
std::string usage_event(const AnswerHead& head, const Usage& usage);
std::string error_event(const ApiError& error);
inline constexpr std::string_view kDoneEvent = "data: [DONE]\n\n";

std::string error_body(const ApiError& error);
std::string models_body(const std::string& model, std::int64_t created);
std::string model_body(const std::string& model, std::int64_t created);
std::string health_body(const std::string& model, bool stopping);

}  // namespace isotone::serve
