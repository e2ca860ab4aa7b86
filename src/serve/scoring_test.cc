// Scores equal what generation reports, windows overlap by half, bad ids are named.
#include "serve/scoring.h"

#include <gtest/gtest.h>

#include <cmath>

#include "serve/fake_model.h"
#include "serve/generation.h"

namespace isotone::serve {
namespace {

TEST(Scoring, EqualsWhatGenerationReportedToTheBit) {
  FakeModel model(byte_tokens("0123456789"));
  model.margin = 0.0F;
  const text::Tokenizer tokenizer = fake_tokenizer();
  Conversation conversation(model);
  GenerationRequest request;
  request.prompt = byte_tokens("start");
  request.max_tokens = 40;
  request.sampling.logprobs = true;
  request.sampling.top_k = 20;
  request.sampling.repetition_penalty = 1.3F;
  const Generation g = generate(conversation, tokenizer, request);
  std::vector<std::int32_t> ids = request.prompt;
  for (const nn::Sample& s : g.tokens) {
    ids.push_back(s.token);
  }
  const Score s = score(model, ids);
  ASSERT_EQ(s.logprobs.size(), ids.size());
  double sum = 0.0;
  for (std::size_t i = 0; i < g.tokens.size(); ++i) {
    EXPECT_EQ(s.logprobs[5 + i], g.tokens[i].logprob) << i;
  }
  for (const float x : s.logprobs) {
    sum -= static_cast<double>(x);
  }
  EXPECT_EQ(s.counted, static_cast<std::int64_t>(ids.size()) - 1);
  EXPECT_DOUBLE_EQ(s.mean_nll, sum / static_cast<double>(s.counted));
  EXPECT_NEAR(s.perplexity, std::exp(s.mean_nll), 1e-9 * s.perplexity);
}

TEST(Scoring, WindowsOverlapByHalfAndCoverEachTokenOnce) {
  FakeModel model(byte_tokens("0123456789"), 64);
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 333; ++i) {
    ids.push_back(i * 7 % 256);
  }
  for (const std::int64_t window : {2, 3, 10, 64}) {
    std::int64_t last = 0;
    const Score s = score(model, ids, window, [&](std::int64_t done, std::int64_t total) {
      EXPECT_GE(done, last);
      EXPECT_EQ(total, 332);
      last = done;
    });
    EXPECT_EQ(last, 332);
    // Token i was scored by a window that begins early enough: recompute it from that window.
    const auto check = [&](std::int64_t begin, std::int64_t target) {
      const auto sequence = model.start();
      const auto logits = sequence->extend(std::span(ids).subspan(begin, target - begin));
      EXPECT_EQ(s.logprobs[target], nn::log_normaliser(logits).logprob(logits[ids[target]])) << window << " " << target;
    };
    std::int64_t begin = 0;
    std::int64_t target = 1;
    while (target < 333) {
      const std::int64_t end = std::min<std::int64_t>(333, begin + window);
      for (; target < end; ++target) {
        check(begin, target);
      }
      begin = std::max(begin + 1, end - window / 2);
    }
  }
}

TEST(Scoring, Errors) {
  FakeModel model(byte_tokens("01"), 64);
  const std::vector<std::int32_t> one = {1};
  const std::vector<std::int32_t> bad = {1, 300};
  const std::vector<std::int32_t> good = {1, 2};
  EXPECT_THROW(score(model, one), Error);
  EXPECT_THROW(score(model, bad), Error);
  EXPECT_THROW(score(model, good, 65), Error);
  EXPECT_THROW(score(model, good, 1), Error);
}

TEST(Scoring, ParsesIds) {
  EXPECT_EQ(parse_ids("1,2 3\n4,\t5\r\n", 10), (std::vector<std::int32_t>{1, 2, 3, 4, 5}));
  EXPECT_TRUE(parse_ids(" \n", 10).empty());
  for (const char* bad : {"1,x", "10", "-1", "1.5", "99999999999999999999", "1;2"}) {
    EXPECT_THROW(parse_ids(bad, 10), Error) << bad;
  }
  try {
    parse_ids("1,2,abc", 10);
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "'abc' (number 3 of the list) is no token id; ids are whole numbers from 0 to 9");
  }
}

}  // namespace
}  // namespace isotone::serve
