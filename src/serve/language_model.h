// What the jobs need of a language model: logits for tokens, and a sequence that remembers them. The model files and
// their caches stand behind it; tests put a tiny fake here.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

namespace isotone::serve {

/// One conversation and its cache. Not for use by two threads at once. Token ids outside [0, vocab_size) and lengths
/// over the context length throw Error and leave the sequence as it was.
class Sequence {
 public:
  virtual ~Sequence() = default;
  /// Appends `tokens` (at least one) and returns the logits, f32 [vocab], that follow the last one. The span is valid
  /// until the next call. The bits do not depend on how the tokens are cut into calls.
  virtual std::span<const float> extend(std::span<const std::int32_t> tokens) = 0;
  /// The same with the logits after every token: `visit(i, logits)` for i = 0 … tokens.size()-1 in order.
  using Visit = std::function<void(std::int64_t index, std::span<const float> logits)>;
  virtual void extend_all(std::span<const std::int32_t> tokens, const Visit& visit) = 0;
  /// Tokens held.
  [[nodiscard]] virtual std::int64_t length() const = 0;
  /// Forgets all tokens from index `length` on.
  virtual void truncate(std::int64_t length) = 0;
};

class LanguageModel {
 public:
  virtual ~LanguageModel() = default;
  [[nodiscard]] virtual int vocab_size() const = 0;
  /// Most tokens a sequence can hold.
  [[nodiscard]] virtual std::int64_t context_length() const = 0;
  /// A new, empty sequence; it must not outlive the model.
  virtual std::unique_ptr<Sequence> start() = 0;
};

}  // namespace isotone::serve
