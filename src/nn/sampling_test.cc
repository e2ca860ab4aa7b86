// Sampling: every parameter changes what it should and nothing else, draws depend on seed and position alone, reported
// log-probabilities follow the contract, errors name the parameter.
#include "nn/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/philox.h"

namespace isotone::nn {
namespace {

using Ids = std::vector<std::int32_t>;
constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<float> noisy_logits(int n, std::uint64_t seed, float scale = 3.0F) {
  const Philox random(seed, "test");
  std::vector<float> x(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) {
    x[i] = scale * random.normal(static_cast<std::uint64_t>(i));
  }
  return x;
}

/// How often each token is drawn over many positions.
std::map<std::int32_t, int> histogram(const std::vector<float>& logits, const SamplingParams& p, int draws = 4000) {
  std::map<std::int32_t, int> counts;
  for (int i = 0; i < draws; ++i) {
    ++counts[sample(logits, p, {}, {}, i).token];
  }
  return counts;
}

TEST(Sampling, GreedyTakesTheLowerIdOfEquals) {
  SamplingParams p;
  p.temperature = 0.0F;
  EXPECT_EQ(sample(std::vector<float>{1, 5, 5, 2}, p, {}, {}, 0).token, 1);
  EXPECT_EQ(sample(std::vector<float>{-kInf, -kInf, -3}, p, {}, {}, 0).token, 2);
}

TEST(Sampling, DrawsFollowTheDistribution) {
  const std::vector<float> logits = {std::log(0.5F), std::log(0.3F), std::log(0.2F), -kInf};
  SamplingParams p;
  auto counts = histogram(logits, p);
  EXPECT_NEAR(counts[0], 2000, 130);
  EXPECT_NEAR(counts[1], 1200, 120);
  EXPECT_NEAR(counts[2], 800, 110);
  EXPECT_EQ(counts.count(3), 0U);
  p.temperature = 0.5F;  // probabilities 25 : 9 : 4
  counts = histogram(logits, p);
  EXPECT_NEAR(counts[0], 4000 * 25 / 38, 130);
}

TEST(Sampling, DependsOnSeedAndPositionAlone) {
  const auto logits = noisy_logits(3000, 1);
  SamplingParams p;
  p.seed = 7;
  const auto at = [&](std::int64_t position) { return sample(logits, p, {}, {}, position).token; };
  const std::int32_t first = at(5);
  for (int i = 0; i < 20; ++i) {
    at(i);
  }
  EXPECT_EQ(at(5), first);
  // Penalties that are off read no history.
  EXPECT_EQ(sample(logits, p, Ids{1, 2}, Ids{3}, 5).token, first);
  int equal = 0;
  for (int i = 0; i < 50; ++i) {
    const std::int32_t before = at(i);
    p.seed = 8;
    equal += before == at(i) ? 1 : 0;
    p.seed = 7;
  }
  EXPECT_LT(equal, 25);
}

TEST(Sampling, TopK) {
  const std::vector<float> logits = {1, 2, 2, 2, 0};
  SamplingParams p;
  p.top_k = 2;  // ties: ids 1 and 2
  const auto counts = histogram(logits, p);
  EXPECT_EQ(counts.size(), 2U);
  EXPECT_NEAR(counts.at(1), 2000, 130);
  EXPECT_NEAR(counts.at(2), 2000, 130);
  p.top_k = 1;
  EXPECT_EQ(histogram(logits, p, 50).begin()->first, 1);
  p.top_k = 1000;  // more than there are
  EXPECT_EQ(histogram(logits, p).size(), 5U);
}

TEST(Sampling, TopPKeepsTheTokenThatReachesIt) {
  const std::vector<float> logits = {std::log(0.5F), std::log(0.3F), std::log(0.15F), std::log(0.05F)};
  SamplingParams p;
  p.top_p = 0.6F;
  EXPECT_EQ(histogram(logits, p).size(), 2U);
  p.top_p = 0.9F;
  EXPECT_EQ(histogram(logits, p).size(), 3U);
  p.top_p = 1e-6F;
  EXPECT_EQ(histogram(logits, p).size(), 1U);
}

TEST(Sampling, MinP) {
  const std::vector<float> logits = {std::log(0.5F), std::log(0.3F), std::log(0.15F), std::log(0.05F)};
  SamplingParams p;
  p.min_p = 0.5F;  // 0.25 and more
  EXPECT_EQ(histogram(logits, p).size(), 2U);
  p.min_p = 1.0F;
  EXPECT_EQ(histogram(logits, p).size(), 1U);
  p.min_p = 0.2F;
  p.top_k = 2;
  EXPECT_EQ(histogram(logits, p).size(), 2U);
}

TEST(Sampling, FiltersOfALargeVocabularyEqualAPlainSort) {
  // The lazy sort must keep what a full one keeps: compare the filtered log-probability with one computed plainly.
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto logits = noisy_logits(5000, seed, 1.0F);
    SamplingParams p;
    p.seed = seed;
    p.logprobs = true;
    p.top_p = 0.9F;
    p.top_k = seed % 2 == 0 ? 0 : 700;
    const Sample s = sample(logits, p, {}, {}, 3);
    std::vector<double> w;
    for (const float x : logits) {
      w.push_back(std::exp(static_cast<double>(x)));
    }
    std::sort(w.rbegin(), w.rend());
    if (p.top_k > 0) {
      w.resize(700);
    }
    double total = 0;
    for (const double x : w) {
      total += x;
    }
    double kept = 0;
    std::size_t n = 0;
    while (kept < 0.9 * total) {
      kept += w[n++];
    }
    EXPECT_NEAR(s.filtered_logprob, logits[s.token] - std::log(kept), 1e-4) << seed;
    EXPECT_GE(std::exp(static_cast<double>(logits[s.token])), w[n - 1] * 0.9999);
  }
}

TEST(Sampling, RepetitionPenaltyCoversPromptAndAnswer) {
  SamplingParams p;
  p.temperature = 0.0F;
  p.repetition_penalty = 2.0F;
  EXPECT_EQ(sample(std::vector<float>{3, 2, -1}, p, Ids{0}, {}, 0).token, 1);
  EXPECT_EQ(sample(std::vector<float>{3, 2, -1}, p, {}, Ids{0, 0}, 0).token, 1);
  // A negative logit becomes smaller.
  EXPECT_EQ(sample(std::vector<float>{-1.0F, -1.5F}, p, Ids{0}, {}, 0).token, 1);
}

TEST(Sampling, FrequencyAndPresencePenaltiesCoverTheAnswerOnly) {
  SamplingParams p;
  p.temperature = 0.0F;
  p.presence_penalty = 1.5F;
  EXPECT_EQ(sample(std::vector<float>{3, 2}, p, Ids{0, 0, 0}, {}, 0).token, 0);
  EXPECT_EQ(sample(std::vector<float>{3, 2}, p, {}, Ids{0}, 0).token, 1);
  p.presence_penalty = 0.0F;
  p.frequency_penalty = 0.4F;
  EXPECT_EQ(sample(std::vector<float>{3, 2}, p, {}, Ids{0, 0}, 0).token, 0);
  EXPECT_EQ(sample(std::vector<float>{3, 2}, p, {}, Ids{0, 0, 0}, 0).token, 1);
}

TEST(Sampling, LogitBiasForbidsAndForces) {
  SamplingParams p;
  p.logit_bias = {{0, -100.0F}};
  EXPECT_EQ(histogram({9, 1, 1}, p).count(0), 0U);
  p.logit_bias = {{2, 100.0F}};
  EXPECT_EQ(histogram({9, 1, 1}, p).size(), 1U);
}

TEST(Sampling, LogprobIsOfTheUnmodifiedModelFilteredIsNot) {
  const std::vector<float> logits = {std::log(0.5F), std::log(0.3F), std::log(0.2F)};
  SamplingParams p;
  p.logprobs = true;
  p.top_logprobs = 2;
  p.top_k = 1;
  p.temperature = 0.3F;
  Sample s = sample(logits, p, {}, {}, 0);
  EXPECT_NEAR(s.logprob, std::log(0.5), 1e-6);
  EXPECT_EQ(s.filtered_logprob, 0.0F);
  ASSERT_EQ(s.top.size(), 2U);
  EXPECT_EQ(s.top[0].token, 0);
  EXPECT_EQ(s.top[0].logprob, s.logprob);
  EXPECT_EQ(s.top[1].token, 1);
  EXPECT_NEAR(s.top[1].logprob, std::log(0.3), 1e-6);
  p.top_k = 2;
  p.temperature = 1.0F;
  p.logit_bias = {{0, -100.0F}};
  s = sample(logits, p, {}, {}, 0);
  EXPECT_EQ(s.token, 1);
  EXPECT_NEAR(s.logprob, std::log(0.3), 1e-6);
  EXPECT_NEAR(s.filtered_logprob, std::log(0.3 / 0.5), 1e-6);  // tokens 1 and 2 are left
}

TEST(Sampling, NormaliserFollowsTheAxisTree) {
  // Written out again, without vectors or recursion over lambdas: chains of sixteen in leaves cut at axis_cut.
  const auto logits = noisy_logits(1000, 3);
  float max = -kInf;
  for (const float x : logits) {
    max = std::fmax(max, x);
  }
  const auto leaf = [&](int begin, int n) {
    float chain[16] = {};
    for (int i = 0; i < n; ++i) {
      chain[i % 16] += fmath::exp(logits[begin + i] - max);
    }
    for (int half = 8; half > 0; half /= 2) {
      for (int c = 0; c < half; ++c) {
        chain[c] += chain[c + half];
      }
    }
    return chain[0];
  };
  // 1000 is cut at 512 | 488, those at 256 | 256 and 256 | 232.
  const float sum = (leaf(0, 256) + leaf(256, 256)) + (leaf(512, 256) + leaf(768, 232));
  const LogNormaliser norm = log_normaliser(logits);
  EXPECT_EQ(norm.max, max);
  EXPECT_EQ(norm.log_sum, fmath::log(sum));
  EXPECT_EQ(norm.logprob(logits[17]), (logits[17] - max) - fmath::log(sum));
}

TEST(Sampling, ExtremeTemperaturesStayFinite) {
  SamplingParams p;
  p.logprobs = true;
  p.temperature = 1e-4F;
  const std::vector<float> logits = {3e38F, -3e38F, 1.0F};
  const Sample s = sample(logits, p, {}, {}, 0);
  EXPECT_EQ(s.token, 0);
  EXPECT_EQ(s.filtered_logprob, 0.0F);
  p.temperature = 100.0F;
  EXPECT_EQ(histogram({1, 2, 3}, p).size(), 3U);
}

TEST(Sampling, BadLogitsAreErrors) {
  SamplingParams p;
  EXPECT_THROW(sample(std::vector<float>{1, std::nanf("")}, p, {}, {}, 0), Error);
  EXPECT_THROW(sample(std::vector<float>{1, kInf}, p, {}, {}, 0), Error);
  EXPECT_THROW(sample(std::vector<float>{-kInf, -kInf}, p, {}, {}, 0), Error);
  EXPECT_THROW(sample({}, p, {}, {}, 0), Error);
}

TEST(Sampling, ErrorsNameTheParameterAndItsRange) {
  const auto message = [](auto change) {
    SamplingParams p;
    change(p);
    try {
      validate(p, 100);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  using P = SamplingParams;
  const auto starts = [](const std::string& s, const char* with) {
    EXPECT_EQ(s.substr(0, std::string(with).size()), with) << s;
  };
  starts(message([](P& p) { p.temperature = -1; }), "temperature is -1; it must be from 0");
  starts(message([](P& p) { p.temperature = std::nanf(""); }), "temperature is nan");
  starts(message([](P& p) { p.temperature = 1e-9F; }), "temperature is 1e-09");
  starts(message([](P& p) { p.temperature = 101; }), "temperature is 101");
  starts(message([](P& p) { p.top_k = -1; }), "top_k is -1");
  starts(message([](P& p) { p.top_p = 0; }), "top_p is 0; it must be above 0");
  starts(message([](P& p) { p.top_p = 1.5F; }), "top_p is 1.5");
  starts(message([](P& p) { p.min_p = -0.5F; }), "min_p is -0.5");
  starts(message([](P& p) { p.repetition_penalty = 0; }), "repetition_penalty is 0");
  starts(message([](P& p) { p.frequency_penalty = 2.5F; }), "frequency_penalty is 2.5; it must be from -2 to 2");
  starts(message([](P& p) { p.presence_penalty = -3; }), "presence_penalty is -3");
  starts(message([](P& p) { p.top_logprobs = 21; }), "top_logprobs is 21");
  starts(message([](P& p) { p.top_logprobs = 1; }), "top_logprobs is 1 but logprobs is off");
  starts(message([](P& p) { p.logit_bias = {{100, 1.0F}}; }), "logit_bias names token 100");
  starts(message([](P& p) { p.logit_bias = {{-1, 1.0F}}; }), "logit_bias names token -1");
  starts(message([](P& p) { p.logit_bias = {{5, 101.0F}}; }), "logit_bias of token 5 is 101");
  EXPECT_EQ(message([](P&) {}), "no error");
}

}  // namespace
}  // namespace isotone::nn
