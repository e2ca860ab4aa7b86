// One answer from a model: prompt in, tokens and text out, piece by piece, with stop strings, limits and cancellation.
// Knows nothing of HTTP or terminals.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "nn/sampling.h"
#include "serve/language_model.h"

namespace isotone::text {
class Tokenizer;
}

namespace isotone::serve {

/// A sequence that remembers which tokens it holds, so that a prompt which begins like the last one is not read twice.
/// Reuse changes no bit of the answer (docs/numerics.md).
class Conversation {
 public:
  explicit Conversation(LanguageModel& model);

  /// Makes the sequence hold `prompt` and returns the logits after its last token. Reads it in chunks and looks at
  /// `stop` between them: an empty span means stopped. `prompt` is not empty and fits the context.
  std::span<const float> read(std::span<const std::int32_t> prompt, const std::stop_token& stop);
  /// Appends one token.
  std::span<const float> append(std::int32_t token);

  [[nodiscard]] LanguageModel& model() const { return *model_; }
  /// Tokens of the last read() that were there already.
  [[nodiscard]] std::int64_t reused() const { return reused_; }
  [[nodiscard]] const std::vector<std::int32_t>& tokens() const { return tokens_; }

 private:
  LanguageModel* model_;
  std::unique_ptr<Sequence> sequence_;
  std::vector<std::int32_t> tokens_;
  std::int64_t reused_ = 0;
};

struct GenerationRequest {
  std::vector<std::int32_t> prompt;
  /// Most tokens of the answer; below 0: as many as the context holds.
  std::int64_t max_tokens = -1;
  nn::SamplingParams sampling;
  /// The answer ends before the first of these; no part of it is shown.
  std::vector<std::string> stop;
  /// The answer ends with one of these tokens; its text is not shown, and it is counted in `tokens`.
  std::vector<std::int32_t> stop_ids;
};

enum class FinishReason { stop, length, cancelled };
std::string_view finish_reason_name(FinishReason reason);

struct GenerationTimings {
  /// Prompt: seconds until the logits after its last token, and the tokens really read (not reused).
  double prefill_s = 0.0;
  std::int64_t prefill_tokens = 0;
  /// Seconds from the call to the first token.
  double first_token_s = 0.0;
  /// Seconds for the tokens after the first, and how many.
  double decode_s = 0.0;
  std::int64_t decode_tokens = 0;
};

struct Generation {
  std::string text;
  std::vector<nn::Sample> tokens;
  FinishReason reason = FinishReason::length;
  std::int64_t prompt_tokens = 0;
  std::int64_t reused_tokens = 0;
  GenerationTimings timings;
};

/// Gets each piece of text that may be shown (whole UTF-8 characters, possibly empty) and the tokens chosen since the
/// last call. Called for every token, so that a caller can count.
using OnPiece = std::function<void(std::string_view text, std::span<const nn::Sample> tokens)>;

/// Throws Error for an empty prompt, an id outside the vocabulary, a prompt that leaves no room for an answer, or
/// sampling parameters out of range; says which and what fits.
void validate(const GenerationRequest& request, const LanguageModel& model);

/// Generates one answer. A request for `stop` ends it after the token at work with FinishReason::cancelled and what
/// there is. Validates first.
Generation generate(Conversation& conversation, const text::Tokenizer& tokenizer, const GenerationRequest& request,
                    const OnPiece& on_piece = {}, const std::stop_token& stop = {});

}  // namespace isotone::serve
