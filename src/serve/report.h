// What `generate`, `score` and `serve` print, for people and for programs.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "serve/generation.h"
#include "serve/scoring.h"

namespace isotone::serve {

/// {"text", "tokens", "logprobs" (of the unmodified model, %.9g), "filtered_logprobs", "prompt_tokens",
/// "finish_reason", "timings": {"load_s", "first_token_s", "prefill_tok_s", "decode_tok_s"}}.
std::string generation_json(const Generation& generation, double load_seconds);
/// One line: token counts and rates.
std::string generation_summary(const Generation& generation, double load_seconds);

/// {"perplexity", "mean_nll", "counted", "tokens", "logprobs" (the first is null)}.
std::string score_json(const Score& score, std::span<const std::int32_t> ids);
/// The same for people; `per_token` adds a line for each token.
std::string score_text(const Score& score, std::span<const std::int32_t> ids, const text::Tokenizer& tokenizer,
                       bool per_token);

/// The line a server prints when it listens.
std::string listening_text(const std::string& model, const std::string& host, int port, bool json);

}  // namespace isotone::serve
