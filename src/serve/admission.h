// From the body of an API request to work for the model: parse, check, apply the chat template, tokenise, check
// lengths.
#pragma once

#include <cstdint>
#include <string_view>

#include "serve/loaded_model.h"
#include "serve/openai_request.h"
#include "serve/openai_response.h"

namespace isotone::serve {

struct Admission {
  ApiRequest request;  // generation.prompt, max_tokens and stop_ids filled in
  AnswerHead head;
};

/// Token ids of a plain prompt (special tokens in it stay text; a start token is added if the model wants one), and of
/// a conversation by the model's chat template, ending where the assistant's answer begins. Throw Error.
std::vector<std::int32_t> encode_prompt(const LoadedModel& model, std::string_view text);
std::vector<std::int32_t> encode_chat(const LoadedModel& model, const std::vector<text::ChatMessage>& messages);

/// `max_tokens` caps the answer (0: only the context does). Safe to call from any thread. Throws ApiError.
Admission admit(const LoadedModel& model, std::string_view body, bool chat, std::int64_t max_tokens);

}  // namespace isotone::serve
