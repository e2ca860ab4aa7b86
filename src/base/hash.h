// Hashes: SHA-256 for what must be compared between machines and years, XXH3 for tables in memory and on disk caches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace isotone {

/// SHA-256 fed piece by piece.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  Sha256& update(std::span<const std::byte> bytes);
  Sha256& update(std::string_view text);
  /// 64 lower-case hexadecimal digits of everything fed so far; the object starts over afterwards.
  std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string sha256_hex(std::span<const std::byte> bytes);
std::string sha256_hex(std::string_view text);
/// SHA-256 of a whole file, through a map.
std::string sha256_of_file(const std::string& path);

/// XXH3, 64 bits: fast, not for untrusted comparison.
std::uint64_t xxh3_64(std::span<const std::byte> bytes, std::uint64_t seed = 0);
std::uint64_t xxh3_64(std::string_view text, std::uint64_t seed = 0);

}  // namespace isotone
