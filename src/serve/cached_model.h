// A model of models/ behind the LanguageModel interface: compiled steps over a paged cache.
#pragma once

#include <map>
#include <mutex>

#include "models/load.h"
#include "serve/language_model.h"
#include "tensor/transforms.h"

namespace isotone::serve {

/// Compiled forward passes over one set of weights, shared by all sequences. One step runs at a time.
class CachedModel : public LanguageModel {
 public:
  /// `context`: most tokens of a sequence (at most the configuration's maximum).
  CachedModel(ModelConfig config, models::LoadedWeights weights, std::int64_t context);
  [[nodiscard]] int vocab_size() const override { return static_cast<int>(config_.vocab_size); }
  [[nodiscard]] std::int64_t context_length() const override { return context_; }
  std::unique_ptr<Sequence> start() override;

 private:
  friend class CachedSequence;
  /// {logits, k pages..., v pages...} of the tokens; logits [token, vocab] of all of them or of the last one only.
  Tensors step(const Tensors& arguments, bool all_logits);
  Tensors trace(const Tensors& arguments, bool all_logits) const;

  ModelConfig config_;
  models::LoadedWeights weights_;
  const models::Architecture& architecture_;
  std::int64_t context_;
  std::mutex running_;
  Compiled last_;
  Compiled all_;
};

/// Tokens of a page of the cache.
inline constexpr std::int64_t kPageTokens = 64;
/// Tokens of a prompt that are computed together.
inline constexpr std::int64_t kPrefillTokens = 512;

}  // namespace isotone::serve
