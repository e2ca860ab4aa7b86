#include "data/signature.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>

#include "base/error.h"
#include "base/hash.h"

namespace isotone::data {

namespace {

std::string hmac(const std::string& key, const std::string& text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> out{};
  unsigned length = 0;
  require(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
               reinterpret_cast<const unsigned char*>(text.data()), text.size(), out.data(), &length) != nullptr,
          "HMAC failed");
  return {reinterpret_cast<const char*>(out.data()), length};
}

std::string hex(const std::string& bytes) {
  std::string out;
  for (const char c : bytes) {
    out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  }
  return out;
}

}  // namespace

std::string percent_encoded(const std::string& text, bool keep_slashes) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                       c == '.' || c == '_' || c == '~' || (c == '/' && keep_slashes);
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

std::string authorization(const SignedRequest& r) {
  std::string headers, names;
  for (const auto& [name, value] : r.headers) {
    headers += fmt::format("{}:{}\n", name, value);
    names += (names.empty() ? "" : ";") + name;
  }
  const std::string canonical =
      fmt::format("{}\n{}\n{}\n{}\n{}\n{}", r.method, r.path, r.query, headers, names, kEmptySha256);
  const std::string day = r.time.substr(0, 8), scope = fmt::format("{}/{}/s3/aws4_request", day, r.region);
  const std::string to_sign = fmt::format("AWS4-HMAC-SHA256\n{}\n{}\n{}", r.time, scope, sha256_hex(canonical));
  const std::string key = hmac(hmac(hmac(hmac("AWS4" + r.secret, day), r.region), "s3"), "aws4_request");
  return fmt::format("AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={}, Signature={}", r.key, scope, names,
                     hex(hmac(key, to_sign)));
}

}  // namespace isotone::data
