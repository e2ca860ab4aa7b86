// How likely a model finds a text: log-probability of each token and the perplexity, long texts in windows.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "serve/language_model.h"

namespace isotone::serve {

struct Score {
  /// Natural log-probability of ids[i] given those before it in its window; logprobs[0] is NaN-free 0 and not counted.
  std::vector<float> logprobs;
  /// Tokens counted: ids.size() - 1.
  std::int64_t counted = 0;
  /// Mean of -logprob over the counted tokens (the sum is taken in f64, in order), and its exponential.
  double mean_nll = 0.0;
  double perplexity = 0.0;
};

/// Scores `ids` (at least 2). A text longer than `window` tokens is read in windows that overlap by half, so that each
/// token but those of the first window has at least half a window before it. window 0: the model's context length.
/// `progress(done, total)` is called as tokens are scored.
Score score(LanguageModel& model, std::span<const std::int32_t> ids, std::int64_t window = 0,
            const std::function<void(std::int64_t done, std::int64_t total)>& progress = {});

/// Reads ids from text: decimal numbers separated by spaces, commas or line ends. Throws Error naming the first bad
/// one.
std::vector<std::int32_t> parse_ids(std::string_view text, std::int64_t vocab);

}  // namespace isotone::serve
