#include "data/shard.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace isotone::data {

namespace {

constexpr std::array<char, 8> kMagic{'I', 'S', 'O', 'G', 'R', 'A', 'I', 'N'};
constexpr std::uint32_t kFormat = 1;

/// The first 128 bytes of a shard, little-endian. A record of 4 * tokens + 8 bytes for each grain follows.
struct Header {
  std::array<char, 8> magic;
  std::uint32_t format;
  std::uint32_t tokens;
  std::uint64_t grains;
  std::array<char, 64> sha256;  // of all records, in hexadecimal digits
  std::array<char, 32> reserved;
  std::uint64_t checksum;  // XXH3 of the bytes before it
};
static_assert(sizeof(Header) == 128);

std::uint64_t checksum_of(const Header& h) {
  return xxh3_64(std::as_bytes(std::span(&h, 1)).first(offsetof(Header, checksum)));
}

std::size_t record_bytes(std::int64_t tokens) {
  return static_cast<std::size_t>(tokens) * sizeof(std::uint32_t) + sizeof(std::uint64_t);
}

}  // namespace

ShardWriter::ShardWriter(const std::string& path, std::int64_t tokens)
    : file_(path), tokens_(tokens), at_(sizeof(Header)) {}

void ShardWriter::add(std::span<const std::uint32_t> words) {
  constexpr std::size_t kMostBuffered = std::size_t{1} << 20;
  const auto bytes = std::as_bytes(words);
  const std::uint64_t checksum = xxh3_64(bytes);
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  const auto sum = std::as_bytes(std::span(&checksum, 1));
  buffer_.insert(buffer_.end(), sum.begin(), sum.end());
  ++grains_;
  if (buffer_.size() >= kMostBuffered) {
    flush();
  }
}

void ShardWriter::flush() {
  hash_.update(buffer_);
  file_.write_at(at_, buffer_);
  at_ += buffer_.size();
  buffer_.clear();
}

void ShardWriter::finish() {
  flush();
  Header h{};
  h.magic = kMagic;
  h.format = kFormat;
  h.tokens = static_cast<std::uint32_t>(tokens_);
  h.grains = static_cast<std::uint64_t>(grains_);
  const std::string sha256 = hash_.hex();
  std::copy(sha256.begin(), sha256.end(), h.sha256.begin());
  h.checksum = checksum_of(h);
  file_.write_at(0, std::as_bytes(std::span(&h, 1)));
  file_.sync();
}

Shard::Shard(const std::string& path, std::int64_t tokens) : file_(path), tokens_(tokens) {
  const auto bytes = file_.bytes();
  Header h{};
  require(bytes.size() >= sizeof(h), "{}: has {} bytes and is cut off in its header; build the data again", path,
          bytes.size());
  std::memcpy(&h, bytes.data(), sizeof(h));
  require(h.magic == kMagic, "{}: is no shard of grains", path);
  require(h.format == kFormat, "{}: is of format {}, this program reads format {}; build the data again", path,
          h.format, kFormat);
  require(h.checksum == checksum_of(h), "{}: the header is damaged; build the data again", path);
  require(h.tokens == tokens, "{}: has grains of {} tokens, not of {}; build the data again", path, h.tokens, tokens);
  const std::size_t after = bytes.size() - sizeof(h);
  require(after % record_bytes(tokens) == 0 && after / record_bytes(tokens) == h.grains,
          "{}: has {} bytes after its header, not the {} grains that this says; build the data again", path, after,
          h.grains);
  grains_ = static_cast<std::int64_t>(h.grains);
}

std::span<const std::uint32_t> Shard::words(std::int64_t grain) const {
  require(grain >= 0 && grain < grains_, "{}: there is no grain {} among {}", file_.path(), grain, grains_);
  const auto record = file_.bytes().subspan(sizeof(Header) + static_cast<std::size_t>(grain) * record_bytes(tokens_),
                                            record_bytes(tokens_));
  const auto words = record.first(record.size() - sizeof(std::uint64_t));
  std::uint64_t checksum = 0;
  std::memcpy(&checksum, record.data() + words.size(), sizeof(checksum));
  require(xxh3_64(words) == checksum, "{}: grain {} is damaged: its checksum differs; build the data again",
          file_.path(), grain);
  return {reinterpret_cast<const std::uint32_t*>(words.data()), static_cast<std::size_t>(tokens_)};
}

ShardedGrains::ShardedGrains(const std::vector<std::string>& paths, std::int64_t tokens, std::int64_t grains)
    : tokens_(tokens) {
  for (const std::string& path : paths) {
    shards_.emplace_back(path, tokens);
    ends_.push_back(size() + shards_.back().grains());
  }
  require(size() == grains, "{}: its shards have {} grains, not {}; build the data again",
          paths.empty() ? "built data" : paths[0], size(), grains);
}

std::span<const std::uint32_t> ShardedGrains::words(std::int64_t i) const {
  const auto shard = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), i) - ends_.begin());
  require(i >= 0 && shard < shards_.size(), "there is no grain {} among {}", i, size());
  return shards_[shard].words(i - (ends_[shard] - shards_[shard].grains()));
}

}  // namespace isotone::data
