// Amazon's Signature Version 4 of a request without a body.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace isotone::data {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct SignedRequest {
  std::string method, path, query;  ///< percent-encoded; the query's parameters by name
  Headers headers;                  ///< lower-case names, sorted; all are signed
  std::string time;                 ///< 20130524T000000Z
  std::string region, key, secret;
};

/// Value of the Authorization header. The headers must hold host, x-amz-content-sha256 and x-amz-date.
std::string authorization(const SignedRequest& request);

/// Everything but letters, digits and "-._~" as %XX; `keep_slashes` for paths.
std::string percent_encoded(const std::string& text, bool keep_slashes);

/// SHA-256 of no bytes.
inline constexpr const char* kEmptySha256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

}  // namespace isotone::data
