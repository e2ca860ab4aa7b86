// base/hash.cc without OpenSSL, which is not there for the cross-compiler: XXH3 only.
#include "base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace isotone {

std::uint64_t xxh3_64(std::span<const std::byte> bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::uint64_t xxh3_64(std::string_view text, std::uint64_t seed) {
  return xxh3_64(std::as_bytes(std::span(text)), seed);
}

}  // namespace isotone
