#include "serve/cached_model.h"

#include <algorithm>

#include "base/error.h"

namespace isotone::serve {

/// A sequence whose pages grow by doubling; positions are its own, so truncation is a number.
class CachedSequence : public Sequence {
 public:
  explicit CachedSequence(CachedModel& model) : model_(model) {}

  std::span<const float> extend(std::span<const std::int32_t> tokens) override {
    check(tokens);
    while (!tokens.empty()) {
      const std::size_t n = std::min<std::size_t>(tokens.size(), static_cast<std::size_t>(kPrefillTokens));
      logits_ = run(tokens.first(n), false);
      tokens = tokens.subspan(n);
    }
    return logits_view(0);
  }

  void extend_all(std::span<const std::int32_t> tokens, const Visit& visit) override {
    check(tokens);
    std::int64_t index = 0;
    while (!tokens.empty()) {
      const std::size_t n =
          std::min<std::size_t>(tokens.size(), 128);  // 128 rows of logits are 25 MB at a usual vocabulary
      logits_ = run(tokens.first(n), true);
      for (std::size_t i = 0; i < n; ++i) {
        visit(index++, logits_view(static_cast<std::int64_t>(i)));
      }
      tokens = tokens.subspan(n);
    }
  }

  [[nodiscard]] std::int64_t length() const override { return length_; }

  void truncate(std::int64_t length) override {
    require(length >= 0 && length <= length_, "truncate: length {} is outside 0 to {}", length, length_);
    length_ = length;
  }

 private:
  void check(std::span<const std::int32_t> tokens) const {
    require(!tokens.empty(), "extend: needs at least one token");
    for (const std::int32_t id : tokens) {
      require(id >= 0 && id < model_.vocab_size(), "token id {} is outside the vocabulary of {}", id,
              model_.vocab_size());
    }
    require(length_ + static_cast<std::int64_t>(tokens.size()) <= model_.context_,
            "{} tokens after {} are over the context length of {}", tokens.size(), length_, model_.context_);
  }

  [[nodiscard]] std::span<const float> logits_view(std::int64_t row) const {
    const auto vocab = static_cast<std::size_t>(model_.vocab_size());
    return {static_cast<const float*>(logits_.host()) + static_cast<std::size_t>(row) * vocab, vocab};
  }

  /// Makes room for `tokens` tokens: pages double, so that shapes (and with them compiled steps) are few.
  void reserve(std::int64_t tokens) {
    const std::int64_t most = (model_.context_ + kPageTokens - 1) / kPageTokens;
    const std::int64_t needed = (tokens + kPageTokens - 1) / kPageTokens;
    if (needed <= pages_) {
      return;
    }
    std::int64_t pages = std::max<std::int64_t>(pages_, 8);
    while (pages < needed) {
      pages *= 2;
    }
    pages = std::min(pages, most);
    const ModelConfig& c = model_.config_;
    const Shape added{pages - pages_, c.n_kv_heads, kPageTokens, c.head_dim};
    Tensors all;
    for (std::int64_t i = 0; i < 2 * c.n_layers; ++i) {
      const Value zero = ops::full(added, 0.0, model_.weights_.compute);
      all.emplace_back(pages_ == 0 ? zero : ops::concat({cache_[static_cast<std::size_t>(i)], zero}, 0));
    }
    eval(all);
    cache_ = std::move(all);
    pages_ = pages;
  }

  Tensor run(std::span<const std::int32_t> tokens, bool all_logits) {
    reserve(length_ + static_cast<std::int64_t>(tokens.size()));
    const auto n = static_cast<std::int64_t>(tokens.size());
    std::vector<std::int32_t> positions(tokens.size()), table(static_cast<std::size_t>(pages_));
    for (std::size_t i = 0; i < positions.size(); ++i) {
      positions[i] = static_cast<std::int32_t>(length_) + static_cast<std::int32_t>(i);
    }
    for (std::size_t i = 0; i < table.size(); ++i) {
      table[i] = static_cast<std::int32_t>(i);
    }
    Tensors arguments{Tensor::from(tokens, {1, n}), Tensor::from(positions, {1, n}), Tensor::from(table, {1, pages_})};
    arguments.insert(arguments.end(), cache_.begin(), cache_.end());
    cache_.clear();  // the step takes their memory over
    Tensors results = model_.step(arguments, all_logits);
    cache_.assign(results.begin() + 1, results.end());
    length_ += n;
    return results[0];
  }

  CachedModel& model_;
  Tensors cache_;  // k pages of every layer, then v pages
  std::int64_t pages_ = 0;
  std::int64_t length_ = 0;
  Tensor logits_;
};

namespace {

CompileSettings donate_cache(const ModelConfig& config) {
  CompileSettings settings;
  for (std::int64_t i = 0; i < 2 * config.n_layers; ++i) {
    settings.donate.push_back(static_cast<std::size_t>(3 + i));
  }
  return settings;
}

}  // namespace

CachedModel::CachedModel(ModelConfig config, models::LoadedWeights weights, std::int64_t context)
    : config_(std::move(config)),
      weights_(std::move(weights)),
      architecture_(models::architecture_of(config_)),
      context_(context > 0 ? std::min(context, config_.max_position) : config_.max_position),
      last_([this](const Tensors& a) { return trace(a, false); }, donate_cache(config_)),
      all_([this](const Tensors& a) { return trace(a, true); }, donate_cache(config_)) {}

std::unique_ptr<Sequence> CachedModel::start() {
  return std::make_unique<CachedSequence>(*this);
}

Tensors CachedModel::trace(const Tensors& a, bool all_logits) const {
  const auto layers = static_cast<std::ptrdiff_t>(config_.n_layers);
  nn::CachedAttention state({a.begin() + 3, a.begin() + 3 + layers}, {a.begin() + 3 + layers, a.end()}, a[2], a[1]);
  Tensor hidden = architecture_.hidden(config_, weights_.parameters, a[0], a[1], state, {weights_.compute});
  if (!all_logits) {
    hidden = ops::slice_axis(hidden, 1, hidden.dim(1) - 1, hidden.dim(1));
  }
  Tensors out{
      Tensor(ops::reshape(architecture_.logits(config_, weights_.parameters, hidden), {-1, config_.vocab_size}))};
  out.insert(out.end(), state.k_pages().begin(), state.k_pages().end());
  out.insert(out.end(), state.v_pages().begin(), state.v_pages().end());
  return out;
}

Tensors CachedModel::step(const Tensors& arguments, bool all_logits) {
  const std::lock_guard lock(running_);
  return (all_logits ? all_ : last_)(arguments);
}

}  // namespace isotone::serve
