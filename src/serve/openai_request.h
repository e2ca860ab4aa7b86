// Requests of the OpenAI API: JSON text to typed values, each parameter taken, ignored or refused as docs/serving.md
// lists. JSON itself stays in the source file.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/generation.h"
#include "text/chat_template.h"

namespace isotone::serve {

/// An error to send to a client, in OpenAI's shape.
struct ApiError {
  int status = 400;
  std::string message;
  std::string type = "invalid_request_error";
  /// The parameter at fault, or empty (null in the answer).
  std::string param;
  /// A word for programs, or empty (null).
  std::string code;
};

struct ApiRequest {
  bool chat = false;
  bool stream = false;
  bool include_usage = false;
  std::string model;
  /// Chat only.
  std::vector<text::ChatMessage> messages;
  /// Completions only: one of the two.
  std::optional<std::string> prompt;
  std::optional<std::vector<std::int32_t>> prompt_ids;
  /// Everything but `prompt` and the model's own stop ids; max_tokens is -1 if not given. A seed is drawn if not given.
  GenerationRequest generation;
};

/// Parses the body of /v1/chat/completions (`chat`) or /v1/completions. Throws ApiError.
ApiRequest parse_request(std::string_view body, bool chat);

}  // namespace isotone::serve
