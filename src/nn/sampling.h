// Choosing the next token from a model's logits: penalties, temperature, filters, one seeded draw, and the
// log-probabilities to report. Knows nothing of tokenizers, requests or models.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace isotone::nn {

/// How a token is chosen. The steps are applied in this order: repetition, frequency and presence penalties, logit
/// bias, temperature, top-k, top-p, min-p; then one draw.
struct SamplingParams {
  /// 0: always the most likely token (ties: the lower id). Range 0 to 100.
  float temperature = 1.0F;
  /// Keep the k most likely tokens; 0 keeps all.
  std::int64_t top_k = 0;
  /// Keep the shortest list of most likely tokens whose probabilities reach this sum. Above 0, at most 1.
  float top_p = 1.0F;
  /// Drop tokens whose probability is below min_p times the largest one's. Range 0 to 1.
  float min_p = 0.0F;
  /// Logits of tokens seen in the prompt or the answer are divided (if positive) or multiplied by this. Above 0, at
  /// most 10.
  float repetition_penalty = 1.0F;
  /// Subtracted once per occurrence in the answer. Range -2 to 2.
  float frequency_penalty = 0.0F;
  /// Subtracted once if the token occurs in the answer. Range -2 to 2.
  float presence_penalty = 0.0F;
  /// Same seed, same prompt, same parameters: same tokens.
  std::uint64_t seed = 0;
  /// (token id, value in -100 to 100) added to the logits; -100 forbids and 100 forces in practice.
  std::vector<std::pair<std::int32_t, float>> logit_bias;
  /// Compute log-probabilities of the chosen token; costs one pass over the vocabulary.
  bool logprobs = false;
  /// Also report this many most likely tokens of the unmodified model. Range 0 to 20; needs `logprobs`.
  int top_logprobs = 0;
};

/// Throws Error naming the parameter, its value and its range. `vocab` bounds the ids of logit_bias.
void validate(const SamplingParams& params, std::int64_t vocab);

struct TokenLogprob {
  std::int32_t token = 0;
  float logprob = 0.0F;
};

struct Sample {
  std::int32_t token = 0;
  /// Natural log-probability under the unmodified model; 0 unless params.logprobs.
  float logprob = 0.0F;
  /// Natural log-probability under the distribution drawn from, after penalties, temperature and filters; 0 (certain)
  /// at temperature 0. Filled only if params.logprobs.
  float filtered_logprob = 0.0F;
  /// The params.top_logprobs most likely tokens of the unmodified model, most likely first, ties by lower id.
  std::vector<TokenLogprob> top;
};

/// Chooses a token. `logits` is [vocab] f32; `prompt` and `answer` are the tokens before it (the penalties read them);
/// `position` is the token's index in the sequence, prompt included. The draw is a function of (seed, position) and
/// the logits alone. Throws Error if the logits hold a NaN or no token is possible. Call validate() first.
Sample sample(std::span<const float> logits, const SamplingParams& params, std::span<const std::int32_t> prompt,
              std::span<const std::int32_t> answer, std::int64_t position);

/// max and log(sum(exp(x - max))) of a row, by the contract's log_softmax (docs/numerics.md, section 12).
struct LogNormaliser {
  float max = 0.0F;
  float log_sum = 0.0F;
  /// log_softmax of one logit of that row.
  [[nodiscard]] float logprob(float logit) const { return (logit - max) - log_sum; }
};
LogNormaliser log_normaliser(std::span<const float> logits);

}  // namespace isotone::nn
