// SHA-256 by OpenSSL's EVP (which picks the processor's SHA instructions), XXH3 by the xxhash header.
#include "base/hash.h"

#include <openssl/evp.h>

#include <array>

#include "base/error.h"
#include "base/file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace isotone {
namespace {

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

}  // namespace

struct Sha256::State {
  std::unique_ptr<EVP_MD_CTX, FreeContext> context{EVP_MD_CTX_new()};
  void start() {
    require(context != nullptr && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1,
            "SHA-256 is not available in the installed OpenSSL");
  }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  state_->start();
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

Sha256& Sha256::update(std::span<const std::byte> bytes) {
  require(EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size()) == 1, "SHA-256 failed");
  return *this;
}

Sha256& Sha256::update(std::string_view text) {
  return update(std::as_bytes(std::span(text.data(), text.size())));
}

std::string Sha256::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  require(EVP_DigestFinal_ex(state_->context.get(), digest.data(), &length) == 1, "SHA-256 failed");
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(std::size_t{2} * length);
  for (unsigned i = 0; i < length; ++i) {
    text += kDigits[digest[i] >> 4];
    text += kDigits[digest[i] & 15U];
  }
  state_->start();
  return text;
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  return Sha256().update(bytes).hex();
}
std::string sha256_hex(std::string_view text) {
  return Sha256().update(text).hex();
}
std::string sha256_of_file(const std::string& path) {
  return sha256_hex(MappedFile(path).bytes());
}

std::uint64_t xxh3_64(std::span<const std::byte> bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::uint64_t xxh3_64(std::string_view text, std::uint64_t seed) {
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

}  // namespace isotone
