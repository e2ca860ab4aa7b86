// The token loop. Prompts are read in chunks so that a client who leaves during a long one is noticed; the bits do not
// depend on the chunks.
#include "serve/generation.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "serve/stop_matcher.h"
#include "text/tokenizer.h"

namespace isotone::serve {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kReadChunk = 512;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

bool contains(const std::vector<std::int32_t>& ids, std::int32_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

}  // namespace

Conversation::Conversation(LanguageModel& model) : model_(&model), sequence_(model.start()) {}

std::span<const float> Conversation::read(std::span<const std::int32_t> prompt, const std::stop_token& stop) {
  require(!prompt.empty(), "the prompt has no tokens");
  // The last token is always read again: its logits are wanted.
  const std::size_t most = std::min(tokens_.size(), prompt.size() - 1);
  std::size_t at = 0;
  while (at < most && tokens_[at] == prompt[at]) {
    ++at;
  }
  tokens_.resize(at);
  if (sequence_->length() != static_cast<std::int64_t>(at)) {
    sequence_->truncate(static_cast<std::int64_t>(at));
  }
  reused_ = static_cast<std::int64_t>(at);
  std::span<const float> logits;
  while (at < prompt.size()) {
    if (stop.stop_requested()) {
      return {};
    }
    const std::span<const std::int32_t> chunk = prompt.subspan(at, std::min(kReadChunk, prompt.size() - at));
    logits = sequence_->extend(chunk);
    tokens_.insert(tokens_.end(), chunk.begin(), chunk.end());
    at += chunk.size();
  }
  return logits;
}

std::span<const float> Conversation::append(std::int32_t token) {
  const std::span<const float> logits = sequence_->extend({&token, 1});
  tokens_.push_back(token);
  return logits;
}

std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::cancelled:
      return "cancelled";
  }
  return "";
}

void validate(const GenerationRequest& request, const LanguageModel& model) {
  require(!request.prompt.empty(), "the prompt has no tokens; give at least one");
  const std::int64_t context = model.context_length();
  const auto length = static_cast<std::int64_t>(request.prompt.size());
  require(length < context,
          "the prompt has {} tokens and the model's context holds {}: no room for an answer; shorten the prompt",
          length, context);
  require(request.max_tokens < 0 || length + request.max_tokens <= context,
          "the prompt has {} tokens and max_tokens is {}, together more than the context of {}; at most {} fit", length,
          request.max_tokens, context, context - length);
  for (std::size_t i = 0; i < request.prompt.size(); ++i) {
    const std::int32_t id = request.prompt[i];
    require(id >= 0 && id < model.vocab_size(), "token {} of the prompt is {}; the model has tokens 0 to {}", i, id,
            model.vocab_size() - 1);
  }
  nn::validate(request.sampling, model.vocab_size());
}

Generation generate(Conversation& conversation, const text::Tokenizer& tokenizer, const GenerationRequest& request,
                    const OnPiece& on_piece, const std::stop_token& stop) {
  validate(request, conversation.model());
  StopMatcher matcher(request.stop);
  text::StreamDecoder decoder(tokenizer);
  Generation g;
  g.prompt_tokens = static_cast<std::int64_t>(request.prompt.size());
  const std::int64_t room = conversation.model().context_length() - g.prompt_tokens;
  const std::int64_t limit = request.max_tokens < 0 ? room : request.max_tokens;
  const auto start = Clock::now();
  std::span<const float> logits = conversation.read(request.prompt, stop);
  g.reused_tokens = conversation.reused();
  g.timings.prefill_s = seconds_since(start);
  g.timings.prefill_tokens = g.prompt_tokens - g.reused_tokens;

  std::vector<std::int32_t> answer;
  auto first = start;
  const auto show = [&](std::string text, std::span<const nn::Sample> tokens) {
    g.text += text;
    if (on_piece) {
      on_piece(text, tokens);
    }
  };
  while (static_cast<std::int64_t>(answer.size()) < limit) {
    if (stop.stop_requested()) {
      g.reason = FinishReason::cancelled;
      break;
    }
    const std::int64_t position = g.prompt_tokens + static_cast<std::int64_t>(answer.size());
    g.tokens.push_back(nn::sample(logits, request.sampling, request.prompt, answer, position));
    const std::int32_t token = g.tokens.back().token;
    answer.push_back(token);
    if (answer.size() == 1) {
      first = Clock::now();
      g.timings.first_token_s = std::chrono::duration<double>(first - start).count();
    }
    const bool ends = contains(request.stop_ids, token);
    show(ends ? std::string() : matcher.push(decoder.push(token)), {&g.tokens.back(), 1});
    if (ends || matcher.matched()) {
      g.reason = FinishReason::stop;
      break;
    }
    // The last token's logits are not needed: it is not read.
    if (static_cast<std::int64_t>(answer.size()) < limit) {
      logits = conversation.append(token);
    }
  }
  if (!matcher.matched()) {
    std::string rest = matcher.push(decoder.finish());
    if (matcher.matched()) {
      g.reason = FinishReason::stop;
    }
    rest += matcher.finish();
    if (!rest.empty()) {
      show(std::move(rest), {});
    }
  }
  g.timings.decode_tokens = std::max<std::int64_t>(0, static_cast<std::int64_t>(answer.size()) - 1);
  g.timings.decode_s = answer.empty() ? 0.0 : seconds_since(first);
  return g;
}

}  // namespace isotone::serve
