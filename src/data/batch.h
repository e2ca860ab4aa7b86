// Batches: tokens of some grains as a training step takes them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

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
  /// SHA-256 of one grain's ids, targets and starts.
  [[nodiscard]] std::string grain_sha256(std::int64_t grain) const;
};

/// SHA-256 over a batch's shape and its grains' hashes in order, so that each rank hashes what it reads.
std::string batch_sha256(std::int64_t tokens, const std::vector<std::string>& grain_hashes);

/// A global batch of which each rank reads the parts it needs.
class GlobalBatch {
 public:
  /// One that is in memory as a whole; it must outlive this.
  GlobalBatch(const Batch& whole);  // NOLINT(google-explicit-constructor): wherever a global batch is taken
  /// `read(begin, count)` gives grains [begin, begin + count).
  GlobalBatch(std::int64_t grains, std::int64_t tokens, std::function<Batch(std::int64_t, std::int64_t)> read);

  [[nodiscard]] std::int64_t grains() const { return grains_; }
  [[nodiscard]] std::int64_t tokens() const { return tokens_; }
  [[nodiscard]] Batch part(std::int64_t begin, std::int64_t count) const;

 private:
  std::int64_t grains_, tokens_;
  std::function<Batch(std::int64_t, std::int64_t)> read_;
};

}  // namespace isotone::data
