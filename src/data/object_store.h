// Objects of S3-compatible stores as files: listed, fetched by ranges, kept in a cache on the disk.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/http_get.h"

namespace isotone::data {

struct StoredObject {
  std::string url;  ///< s3://BUCKET/KEY
  std::uint64_t bytes = 0;
  std::string etag;  ///< changes with the contents
};

/// "s3://..."
bool is_object_url(const std::string& path);

/// Who asks, and where. Addresses are path-style: ENDPOINT/BUCKET/KEY.
struct StoreSettings {
  std::string endpoint;  ///< empty: Amazon's of the region
  std::string region = "us-east-1";
  std::string key, secret, token;  ///< no key: requests are not signed
  std::string cache = ".cache/objects";
  int tries = 5, seconds = 60;       ///< of a request
  std::uint64_t range = 8ULL << 20;  ///< bytes of one
};
/// From the variables that other clients read: AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, AWS_REGION or
/// AWS_DEFAULT_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN; the cache from
/// ISOTONE_OBJECT_CACHE.
StoreSettings store_settings();

class ObjectStore {
 public:
  explicit ObjectStore(StoreSettings settings);

  /// Objects whose keys begin with the URL's, by their keys. Throws Error naming the URL and the store's reason.
  [[nodiscard]] std::vector<StoredObject> list(const std::string& url) const;
  /// What the store says of one object.
  [[nodiscard]] StoredObject look(const std::string& url) const;
  /// A local file with the object's contents: fetched by ranges, each tried several times, or as the cache has it. An
  /// object that changes meanwhile is an error.
  [[nodiscard]] std::string fetch(const std::string& url) const;

 private:
  struct Question {
    std::string method = "GET", bucket, key, query, range, etag;
    std::uint64_t most = 0;
  };
  [[nodiscard]] HttpAnswer ask(const Question& question, const std::string& url) const;
  StoreSettings settings_;
  HttpAddress address_;
};

}  // namespace isotone::data
