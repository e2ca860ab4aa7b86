// One HTTP GET with a time limit, in the clear or over TLS. Knows nothing of what is asked for.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace isotone::data {

struct HttpAddress {
  bool tls = false;
  std::string host, port;
};

struct HttpAnswer {
  int status = 0;
  std::string body, etag, content_range;
  std::uint64_t length = 0;  ///< as the server says, also where no body was asked for
};

/// The address in "http://host:port" or "https://host". Throws Error where it is none.
HttpAddress parse_address(const std::string& url);

/// `method` is GET or HEAD, `target` a path with its query, percent-encoded. Servers' certificates are verified against
/// the system's. Throws Error where there is no whole answer within `seconds`, or a body of more than `most` bytes.
HttpAnswer http_get(const HttpAddress& address, const std::string& method, const std::string& target,
                    const std::vector<std::pair<std::string, std::string>>& headers, std::uint64_t most, int seconds);

}  // namespace isotone::data
