// Sampling works on a copy of the logits; candidates are sorted in growing slices, because a draw rarely needs more
// than the first few.
#include "nn/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "base/fmath.h"
#include "base/fmath_impl.h"
#include "base/parallel.h"
#include "base/philox.h"
#include "base/tree.h"
#include "nn/sampling_simd.h"

namespace isotone::nn {
namespace {

struct Candidate {
  float logit = 0.0F;
  std::int32_t token = 0;
};

bool more_likely(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

void check_range(const char* name, double value, double low, double high, const char* range) {
  // Written so that NaN fails too.
  require(value >= low && value <= high, "{} is {}; it must be {}", name, value, range);
}

/// Sorted beginnings of a list of candidates, extended on demand.
class LazySorted {
 public:
  explicit LazySorted(std::vector<Candidate>& all) : all_(all) {}
  const Candidate& operator[](std::size_t i) {
    while (i >= sorted_) {
      const std::size_t want = std::min(all_.size(), std::max<std::size_t>(64, sorted_ * 4));
      const auto begin = all_.begin();
      if (want < all_.size()) {
        std::nth_element(begin + sorted_, begin + want, all_.end(), more_likely);
      }
      std::sort(begin + sorted_, begin + want, more_likely);
      sorted_ = want;
    }
    return all_[i];
  }
  [[nodiscard]] std::size_t size() const { return all_.size(); }

 private:
  std::vector<Candidate>& all_;
  std::size_t sorted_ = 0;
};

bool changes_logits(const SamplingParams& p) {
  return p.repetition_penalty != 1.0F || p.frequency_penalty != 0.0F || p.presence_penalty != 0.0F ||
         !p.logit_bias.empty();
}

/// Penalties and bias, in the order that SamplingParams states. Ids outside the vocabulary are the caller's bug and
/// are ignored.
void adjust(std::span<float> logits, const SamplingParams& p, std::span<const std::int32_t> prompt,
            std::span<const std::int32_t> answer) {
  const auto inside = [&](std::int32_t t) { return t >= 0 && static_cast<std::size_t>(t) < logits.size(); };
  if (p.repetition_penalty != 1.0F) {
    std::unordered_set<std::int32_t> seen(prompt.begin(), prompt.end());
    seen.insert(answer.begin(), answer.end());
    for (const std::int32_t t : seen) {
      if (inside(t)) {
        logits[t] = logits[t] > 0.0F ? logits[t] / p.repetition_penalty : logits[t] * p.repetition_penalty;
      }
    }
  }
  if (p.frequency_penalty != 0.0F || p.presence_penalty != 0.0F) {
    std::unordered_map<std::int32_t, int> counts;
    for (const std::int32_t t : answer) {
      ++counts[t];
    }
    for (const auto& [t, count] : counts) {
      if (inside(t)) {
        logits[t] = (logits[t] - static_cast<float>(count) * p.frequency_penalty) - p.presence_penalty;
      }
    }
  }
  for (const auto& [t, bias] : p.logit_bias) {
    logits[t] += bias;
  }
}

/// The largest logit; NaNs are passed over.
float largest(std::span<const float> logits) {
  F8 best(-std::numeric_limits<float>::infinity());
  std::size_t i = 0;
  for (; i + F8::kLanes <= logits.size(); i += F8::kLanes) {
    const F8 x = F8::load(logits.data() + i);
    best = select(best < x, x, best);
  }
  float lane[F8::kLanes];
  best.store(lane);
  float max = lane[0];
  for (const float x : lane) {
    max = x > max ? x : max;
  }
  for (; i < logits.size(); ++i) {
    max = logits[i] > max ? logits[i] : max;
  }
  return max;
}

std::int32_t most_likely(std::span<const float> logits) {
  const float max = largest(logits);
  return static_cast<std::int32_t>(std::find(logits.begin(), logits.end(), max) - logits.begin());
}

/// Sum of exp(x - max) over a leaf: sixteen chains, folded by halves (docs/numerics.md, section 2).
float leaf_exp_sum(const float* x, std::int64_t n, float max) {
  static_assert(kChains == 2 * F8::kLanes);
  F8 low(0.0F);
  F8 high(0.0F);
  std::int64_t i = 0;
  for (; i + kChains <= n; i += kChains) {
    low = low + fmath::exp_v(F8::load(x + i) - F8(max));
    high = high + fmath::exp_v(F8::load(x + i + F8::kLanes) - F8(max));
  }
  float chain[kChains];
  low.store(chain);
  high.store(chain + F8::kLanes);
  for (int c = 0; i + c < n; ++c) {
    chain[c] += fmath::exp(x[i + c] - max);
  }
  for (int half = kChains / 2; half > 0; half /= 2) {
    for (int c = 0; c < half; ++c) {
      chain[c] += chain[c + half];
    }
  }
  return chain[0] + 0.0F;
}

void exp_in_place(std::vector<float>& x) {
  std::size_t i = 0;
  for (; i + F8::kLanes <= x.size(); i += F8::kLanes) {
    fmath::exp_v(F8::load(x.data() + i)).store(x.data() + i);
  }
  for (; i < x.size(); ++i) {
    x[i] = fmath::exp(x[i]);
  }
}

/// Draws from the candidates by the filters of `p`; returns the chosen one and its log-probability among those kept.
std::pair<std::int32_t, float> draw(std::span<const float> logits, const SamplingParams& p, std::int64_t position) {
  // Measured from the largest, so that a small temperature cannot overflow.
  const float max = largest(logits);
  const auto scaled = [&](float x) { return (x - max) / p.temperature; };
  std::vector<Candidate> all(logits.size());
  std::vector<float> weights(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    all[i] = {scaled(logits[i]), static_cast<std::int32_t>(i)};
    weights[i] = all[i].logit;
  }
  exp_in_place(weights);
  LazySorted sorted(all);
  const auto weight = [&](const Candidate& c) { return static_cast<double>(weights[c.token]); };
  std::size_t limit = sorted.size();
  double total = 0.0;
  if (p.top_k > 0 && static_cast<std::size_t>(p.top_k) < limit) {
    limit = static_cast<std::size_t>(p.top_k);
    for (std::size_t i = 0; i < limit; ++i) {
      total += weight(sorted[i]);
    }
  } else {
    for (const float w : weights) {
      total += static_cast<double>(w);
    }
  }
  // top-p and min-p keep a beginning of the sorted list. min-p compares with the largest probability: weight 1.
  std::size_t kept = limit;
  double kept_total = total;
  if (p.top_p < 1.0F || p.min_p > 0.0F) {
    kept = 0;
    kept_total = 0.0;
    while (kept < limit) {
      const double w = weight(sorted[kept]);
      if (kept > 0 && w < static_cast<double>(p.min_p)) {
        break;
      }
      kept_total += w;
      ++kept;
      if (p.top_p < 1.0F && kept_total >= static_cast<double>(p.top_p) * total) {
        break;
      }
    }
  }
  const double u =
      static_cast<double>(Philox(p.seed, "sampling").uniform(static_cast<std::uint64_t>(position))) * kept_total;
  double reached = 0.0;
  std::size_t chosen = 0;
  for (std::size_t i = 0; i < kept; ++i) {
    const double w = weight(sorted[i]);
    if (w <= 0.0) {
      break;
    }
    chosen = i;  // the last one with weight, should rounding leave u at the very end
    reached += w;
    if (reached > u) {
      break;
    }
  }
  const Candidate& c = sorted[chosen];
  return {c.token, c.logit - fmath::log(static_cast<float>(kept_total))};
}

std::vector<TokenLogprob> top_tokens(std::span<const float> logits, const LogNormaliser& norm, int count) {
  std::vector<Candidate> best;
  best.reserve(static_cast<std::size_t>(count) + 1);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const Candidate c{logits[i], static_cast<std::int32_t>(i)};
    if (best.size() == static_cast<std::size_t>(count) && !more_likely(c, best.back())) {
      continue;
    }
    best.insert(std::upper_bound(best.begin(), best.end(), c, more_likely), c);
    if (best.size() > static_cast<std::size_t>(count)) {
      best.pop_back();
    }
  }
  std::vector<TokenLogprob> top;
  for (const Candidate& c : best) {
    top.push_back({c.token, norm.logprob(c.logit)});
  }
  return top;
}

}  // namespace

void validate(const SamplingParams& p, std::int64_t vocab) {
  check_range("temperature", p.temperature, 0.0, 100.0, "from 0 (greedy) to 100");
  require(p.temperature == 0.0F || p.temperature >= 1e-4F,
          "temperature is {}; below 0.0001 only 0 (always the most likely token) is possible", p.temperature);
  require(p.top_k >= 0, "top_k is {}; it must be 0 (all tokens) or a count from 1", p.top_k);
  require(p.top_p > 0.0F && p.top_p <= 1.0F, "top_p is {}; it must be above 0 and at most 1", p.top_p);
  check_range("min_p", p.min_p, 0.0, 1.0, "from 0 to 1");
  require(p.repetition_penalty > 0.0F && p.repetition_penalty <= 10.0F,
          "repetition_penalty is {}; it must be above 0 and at most 10 (1 is none)", p.repetition_penalty);
  check_range("frequency_penalty", p.frequency_penalty, -2.0, 2.0, "from -2 to 2");
  check_range("presence_penalty", p.presence_penalty, -2.0, 2.0, "from -2 to 2");
  require(p.top_logprobs >= 0 && p.top_logprobs <= 20, "top_logprobs is {}; it must be from 0 to 20", p.top_logprobs);
  require(p.logprobs || p.top_logprobs == 0, "top_logprobs is {} but logprobs is off; turn logprobs on",
          p.top_logprobs);
  for (const auto& [token, bias] : p.logit_bias) {
    require(token >= 0 && token < vocab, "logit_bias names token {}; the model has tokens 0 to {}", token, vocab - 1);
    require(bias >= -100.0F && bias <= 100.0F, "logit_bias of token {} is {}; it must be from -100 to 100", token,
            bias);
  }
}

LogNormaliser log_normaliser(std::span<const float> logits) {
  require(!logits.empty(), "log_normaliser: there are no logits");
  const FlushSubnormals flush;
  const float max = largest(logits);
  const float sum = axis_tree(
      0, static_cast<std::int64_t>(logits.size()),
      [&](std::int64_t begin, std::int64_t n) { return leaf_exp_sum(logits.data() + begin, n, max); },
      [](float l, float r) { return l + r; });
  return {max, fmath::log(sum)};
}

Sample sample(std::span<const float> logits, const SamplingParams& p, std::span<const std::int32_t> prompt,
              std::span<const std::int32_t> answer, std::int64_t position) {
  require(!logits.empty(), "sample: there are no logits");
  const FlushSubnormals flush;
  std::vector<float> adjusted;
  std::span<const float> used = logits;
  if (changes_logits(p)) {
    adjusted.assign(logits.begin(), logits.end());
    adjust(adjusted, p, prompt, answer);
    used = adjusted;
  }
  int bad = 0;
  for (const float x : used) {
    bad |= x < std::numeric_limits<float>::infinity() ? 0 : 1;  // NaN and +inf; a masked -inf is fine
  }
  require(bad == 0,
          "the model gave a logit that is NaN or infinite at position {}; no token can be chosen (a damaged "
          "weight file, or an overflow in the compute dtype: try --dtype f32)",
          position);
  Sample s;
  const std::int32_t best = most_likely(used);
  require(used[best] > -std::numeric_limits<float>::infinity(), "every token is masked at position {}", position);
  if (p.temperature == 0.0F) {
    s.token = best;
  } else {
    std::tie(s.token, s.filtered_logprob) = draw(used, p, position);
  }
  if (p.logprobs) {
    const LogNormaliser norm = log_normaliser(logits);
    s.logprob = norm.logprob(logits[s.token]);
    if (p.top_logprobs > 0) {
      s.top = top_tokens(logits, norm, p.top_logprobs);
    }
  } else {
    s.filtered_logprob = 0.0F;
  }
  return s;
}

}  // namespace isotone::nn
