// Numbers are written by fmt, because a log-probability must show exactly nine digits; strings by the JSON library.
#include "serve/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>
#include <nlohmann/json.hpp>

#include "text/tokenizer.h"

namespace isotone::serve {
namespace {

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

double rate(std::int64_t tokens, double seconds) {
  return seconds > 0.0 ? static_cast<double>(tokens) / seconds : 0.0;
}

std::string list(const std::vector<nn::Sample>& tokens, float nn::Sample::*value) {
  std::string out;
  for (const nn::Sample& s : tokens) {
    fmt::format_to(std::back_inserter(out), "{}{:.9g}", out.empty() ? "" : ", ", s.*value);
  }
  return out;
}

}  // namespace

std::string generation_json(const Generation& g, double load_seconds) {
  std::vector<std::int32_t> ids;
  for (const nn::Sample& s : g.tokens) {
    ids.push_back(s.token);
  }
  return fmt::format(
      "{{\"text\": {}, \"tokens\": [{}], \"logprobs\": [{}], \"filtered_logprobs\": [{}], \"prompt_tokens\": {}, "
      "\"finish_reason\": \"{}\", \"timings\": {{\"load_s\": {:.6g}, \"first_token_s\": {:.6g}, \"prefill_tok_s\": "
      "{:.6g}, \"decode_tok_s\": {:.6g}}}}}",
      quoted(g.text), fmt::join(ids, ", "), list(g.tokens, &nn::Sample::logprob),
      list(g.tokens, &nn::Sample::filtered_logprob), g.prompt_tokens, finish_reason_name(g.reason), load_seconds,
      g.timings.first_token_s, rate(g.timings.prefill_tokens, g.timings.prefill_s),
      rate(g.timings.decode_tokens, g.timings.decode_s));
}

std::string generation_summary(const Generation& g, double load_seconds) {
  return fmt::format(
      "[{} prompt tokens at {:.0f}/s, {} generated at {:.1f}/s; loaded in {:.2f} s, first token after {:.2f} s]",
      g.prompt_tokens, rate(g.timings.prefill_tokens, g.timings.prefill_s), g.tokens.size(),
      rate(g.timings.decode_tokens, g.timings.decode_s), load_seconds, g.timings.first_token_s);
}

std::string score_json(const Score& score, std::span<const std::int32_t> ids) {
  std::string logprobs = "null";
  for (std::size_t i = 1; i < score.logprobs.size(); ++i) {
    fmt::format_to(std::back_inserter(logprobs), ", {:.9g}", score.logprobs[i]);
  }
  return fmt::format(
      "{{\"perplexity\": {:.9g}, \"mean_nll\": {:.9g}, \"counted\": {}, \"tokens\": [{}], \"logprobs\": [{}]}}",
      score.perplexity, score.mean_nll, score.counted, fmt::join(ids, ", "), logprobs);
}

std::string score_text(const Score& score, std::span<const std::int32_t> ids, const text::Tokenizer& tokenizer,
                       bool per_token) {
  std::string out;
  if (per_token) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      fmt::format_to(std::back_inserter(out), "{:>8} {:>14} {}\n", ids[i],
                     i == 0 ? "-" : fmt::format("{:.9g}", score.logprobs[i]), quoted(tokenizer.token_bytes(ids[i])));
    }
  }
  fmt::format_to(std::back_inserter(out), "perplexity {:.6g} over {} tokens (mean negative log-probability {:.6g})\n",
                 score.perplexity, score.counted, score.mean_nll);
  return out;
}

std::string listening_text(const std::string& model, const std::string& host, int port, bool json) {
  const std::string shown = host.find(':') != std::string::npos ? "[" + host + "]" : host;
  if (json) {
    return fmt::format("{{\"model\": {}, \"url\": {}, \"port\": {}}}", quoted(model),
                       quoted(fmt::format("http://{}:{}", shown, port)), port);
  }
  return fmt::format("Serving {} on http://{}:{} (Ctrl-C ends)", model, shown, port);
}

}  // namespace isotone::serve
