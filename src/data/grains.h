// Grains: fixed lengths of tokens in which documents are packed, and the order in which training sees them.
// Global batch b is a function of (documents, grain length, seed, b) alone.
#pragma once

#include <string>

#include "data/document.h"

namespace isotone::data {

/// Tokens of some grains, row-major [grain, token].
struct Batch {
  std::int64_t grains = 0, tokens = 0;
  std::int64_t first = 0;  // of a part: the first grain's number in the whole
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> targets;    // the next token of the document, or -1 where nothing is learned
  std::vector<std::int32_t> positions;  // from the document's start
  std::vector<std::int32_t> starts;     // where in the grain the token's document starts

  [[nodiscard]] std::int64_t learned() const;
  /// Grains [begin, begin + count).
  [[nodiscard]] Batch part(std::int64_t begin, std::int64_t count) const;
  /// SHA-256 over shape, ids, targets and starts, in hex.
  [[nodiscard]] std::string sha256() const;
};

class GrainStore {
 public:
  /// Packs documents one after another, each starting at a multiple of 64 tokens (docs/numerics.md, section 5); longer
  /// ones are cut. `tokens`, the grain's length, is a multiple of 64. Padding has target -1.
  GrainStore(const std::vector<Document>& documents, std::int64_t tokens, std::uint64_t seed);

  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(ids_.size()) / tokens_; }
  /// Grains [first, first + count) of the endless stream: each epoch is another keyed permutation of all grains.
  [[nodiscard]] Batch stream(std::int64_t first, std::int64_t count) const;
  /// Grains in the order they were packed.
  [[nodiscard]] Batch in_order(std::int64_t first, std::int64_t count) const;

 private:
  void append(Batch& to, std::int64_t grain) const;
  std::int64_t tokens_;
  std::uint64_t seed_;
  std::vector<std::int32_t> ids_, targets_, starts_;
};

/// A permutation of [0, n) that needs no table: a Feistel network over Philox, walked until it lands inside.
std::int64_t permute(std::int64_t i, std::int64_t n, std::uint64_t key);

}  // namespace isotone::data
