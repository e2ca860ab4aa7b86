// Shards: files of packed grains, each with its checksum, read through a map (docs/data.md has the format).
#pragma once

#include <array>
#include <memory>

#include "base/file.h"
#include "base/hash.h"
#include "data/grains.h"

namespace isotone::data {

/// Writes one shard. It must lie in a folder that appears whole or not at all (AsideFolder): the header comes last.
class ShardWriter {
 public:
  ShardWriter(const std::string& path, std::int64_t tokens);
  void add(std::span<const std::uint32_t> words);
  /// Writes the header and syncs.
  void finish();
  [[nodiscard]] std::int64_t grains() const { return grains_; }
  /// Bytes of the file so far.
  [[nodiscard]] std::uint64_t bytes() const { return at_ + buffer_.size(); }

 private:
  void flush();
  SharedFile file_;
  std::int64_t tokens_, grains_ = 0;
  std::uint64_t at_;
  std::vector<std::byte> buffer_;
  Sha256 hash_;
};

class Shard {
 public:
  /// Checks the header and the file's size. Throws Error naming the file and what is wrong.
  Shard(const std::string& path, std::int64_t tokens);
  [[nodiscard]] std::int64_t grains() const { return grains_; }
  /// Throws Error naming file and grain where its checksum differs.
  [[nodiscard]] std::span<const std::uint32_t> words(std::int64_t grain) const;

 private:
  MappedFile file_;
  std::int64_t tokens_, grains_ = 0;
};

/// The grains of several shards, one after another.
class ShardedGrains : public Grains {
 public:
  /// `grains`: how many there must be.
  ShardedGrains(const std::vector<std::string>& paths, std::int64_t tokens, std::int64_t grains);
  [[nodiscard]] std::int64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  [[nodiscard]] std::int64_t tokens() const override { return tokens_; }
  [[nodiscard]] std::span<const std::uint32_t> words(std::int64_t i) const override;

 private:
  std::int64_t tokens_;
  std::vector<Shard> shards_;
  std::vector<std::int64_t> ends_;
};

}  // namespace isotone::data
