// Grains: fixed lengths of tokens in which documents are packed. A grain is one word a token, in memory as in a shard.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "data/batch.h"
#include "data/document.h"

namespace isotone::data {

// A word: the token's id in the low 30 bits, and
inline constexpr std::uint32_t kLearned = std::uint32_t{1} << 30;  ///< the next token is a target
inline constexpr std::uint32_t kStarts = std::uint32_t{1} << 31;   ///< the token is a document's first
inline constexpr std::uint32_t kIdMask = kLearned - 1;

/// Grains by number.
class Grains {
 public:
  virtual ~Grains() = default;
  [[nodiscard]] virtual std::int64_t size() const = 0;
  [[nodiscard]] virtual std::int64_t tokens() const = 0;  ///< of a grain
  /// The words of grain `i`. Throws Error where what holds them is damaged.
  [[nodiscard]] virtual std::span<const std::uint32_t> words(std::int64_t i) const = 0;
  /// SHA-256 over all words in order: equal data has equal hashes, however it is kept.
  [[nodiscard]] virtual std::string sha256() const;
};

/// Appends grain `i` to a batch of grains of the same length.
void append_grain(const Grains& grains, std::int64_t i, Batch& to);

/// Packs documents one after another, each starting at a multiple of 64 tokens (docs/numerics.md, section 5); longer
/// ones are cut. Padding is never a target. Memory is one grain.
class Packer {
 public:
  /// `tokens`, the grain's length, is a multiple of 64.
  Packer(std::int64_t tokens, std::function<void(std::span<const std::uint32_t>)> sink);
  /// Throws Error for an id of more than 30 bits.
  void add(const Document& document);
  /// Pads and hands over the last grain. Throws Error where no document has a token to learn.
  void finish();
  [[nodiscard]] std::int64_t documents() const { return documents_; }
  [[nodiscard]] std::int64_t packed_tokens() const { return packed_; }  ///< without padding

 private:
  void pad(std::size_t until);
  void hand_over_full();
  std::size_t tokens_;
  std::function<void(std::span<const std::uint32_t>)> sink_;
  std::vector<std::uint32_t> grain_;
  std::int64_t documents_ = 0, packed_ = 0, grains_ = 0;
};

/// Grains held in memory.
class MemoryGrains : public Grains {
 public:
  explicit MemoryGrains(std::int64_t tokens) : tokens_(tokens) {}
  void add(std::span<const std::uint32_t> words) { words_.insert(words_.end(), words.begin(), words.end()); }
  [[nodiscard]] std::int64_t size() const override { return static_cast<std::int64_t>(words_.size()) / tokens_; }
  [[nodiscard]] std::int64_t tokens() const override { return tokens_; }
  [[nodiscard]] std::span<const std::uint32_t> words(std::int64_t i) const override {
    return std::span(words_).subspan(static_cast<std::size_t>(i * tokens_), static_cast<std::size_t>(tokens_));
  }

 private:
  std::int64_t tokens_;
  std::vector<std::uint32_t> words_;
};

}  // namespace isotone::data
