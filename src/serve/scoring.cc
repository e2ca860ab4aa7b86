// Windows advance by half their length; the overlap is read for context only, and its tokens keep the log-probability
// that they got in the window before.
#include "serve/scoring.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/fmath.h"
#include "nn/sampling.h"

namespace isotone::serve {

namespace {
/// Tokens given to the model in one call: their logits are in memory together.
constexpr std::int64_t kChunk = 256;
}  // namespace

Score score(LanguageModel& model, std::span<const std::int32_t> ids, std::int64_t window,
            const std::function<void(std::int64_t, std::int64_t)>& progress) {
  const auto n = static_cast<std::int64_t>(ids.size());
  require(n >= 2, "the text has {} tokens; at least 2 are needed, because each is scored by those before it", n);
  for (std::int64_t i = 0; i < n; ++i) {
    require(ids[i] >= 0 && ids[i] < model.vocab_size(), "token {} of the text is {}; the model has tokens 0 to {}", i,
            ids[i], model.vocab_size() - 1);
  }
  const std::int64_t context = model.context_length();
  window = window == 0 ? context : window;
  require(window >= 2 && window <= context, "the window is {}; it must be from 2 to the context length {}", window,
          context);
  Score result;
  result.logprobs.assign(ids.size(), 0.0F);
  const std::unique_ptr<Sequence> sequence = model.start();
  std::int64_t scored = 1;  // the first token has nothing before it
  std::int64_t begin = 0;
  while (scored < n) {
    const std::int64_t end = std::min(n, begin + window);
    sequence->truncate(0);
    // Logits after token i score token i + 1, so the window's last token is not read.
    for (std::int64_t at = begin; at < end - 1;) {
      // What only gives context needs no logits but the last ones.
      const bool context_only = at < scored - 1;
      const std::int64_t stop = std::min({at + kChunk, end - 1, context_only ? scored - 1 : end - 1});
      const auto chunk = ids.subspan(at, stop - at);
      if (context_only) {
        sequence->extend(chunk);
      } else {
        sequence->extend_all(chunk, [&](std::int64_t i, std::span<const float> logits) {
          const std::int64_t target = at + i + 1;
          const float logprob = nn::log_normaliser(logits).logprob(logits[ids[target]]);
          require(std::isfinite(logprob),
                  "the model gives token {} the log-probability {}; its logits are damaged (a bad weight file, or an "
                  "overflow in the compute dtype: try --dtype f32)",
                  target, logprob);
          result.logprobs[target] = logprob;
        });
        scored = stop + 1;
        if (progress) {
          progress(scored - 1, n - 1);
        }
      }
      at = stop;
    }
    begin = std::max(begin + 1, end - window / 2);
  }
  double sum = 0.0;
  for (std::int64_t i = 1; i < n; ++i) {
    sum -= static_cast<double>(result.logprobs[i]);
  }
  result.counted = n - 1;
  result.mean_nll = sum / static_cast<double>(result.counted);
  result.perplexity = fmath64::exp(result.mean_nll);
  return result;
}

std::vector<std::int32_t> parse_ids(std::string_view text, std::int64_t vocab) {
  std::vector<std::int32_t> ids;
  const auto separator = [](char c) { return c == ' ' || c == ',' || c == '\n' || c == '\r' || c == '\t'; };
  std::size_t at = 0;
  while (at < text.size()) {
    if (separator(text[at])) {
      ++at;
      continue;
    }
    std::size_t end = at;
    while (end < text.size() && !separator(text[end])) {
      ++end;
    }
    const std::string_view word = text.substr(at, end - at);
    std::int32_t id = -1;
    const auto [last, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    require(error == std::errc() && last == word.data() + word.size() && id >= 0 && id < vocab,
            "'{}' (number {} of the list) is no token id; ids are whole numbers from 0 to {}", word.substr(0, 40),
            ids.size() + 1, vocab - 1);
    ids.push_back(id);
    at = end;
  }
  return ids;
}

}  // namespace isotone::serve
