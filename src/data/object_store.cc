#include "data/object_store.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <thread>
#include <tuple>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "data/signature.h"

namespace isotone::data {

namespace {

std::string environment(const char* name, const char* other = nullptr, const std::string& otherwise = "") {
  for (const char* n : {name, other}) {
    if (const char* value = n == nullptr ? nullptr : std::getenv(n); value != nullptr && *value != '\0') {
      return value;
    }
  }
  return otherwise;
}

std::pair<std::string, std::string> bucket_and_key(const std::string& url) {
  const std::size_t begin = std::string("s3://").size(), slash = url.find('/', begin);
  const std::string bucket = url.substr(begin, slash == std::string::npos ? slash : slash - begin);
  require(!bucket.empty() && bucket.find_first_of("?#@ ") == std::string::npos,
          "{}: is no address of an object; it must be s3://BUCKET/KEY", url);
  return {bucket, slash == std::string::npos ? "" : url.substr(slash + 1)};
}

std::string time_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof(text), "%Y%m%dT%H%M%SZ", &utc);
  return text;
}

/// The text of the first <name> at or after `at`, which moves behind it; empty where there is none.
std::string element(const std::string& xml, const std::string& name, std::size_t& at) {
  const std::string open = "<" + name + ">", close = "</" + name + ">";
  const std::size_t begin = xml.find(open, at);
  const std::size_t end = begin == std::string::npos ? begin : xml.find(close, begin);
  if (end == std::string::npos) {
    at = xml.size();
    return "";
  }
  at = end + close.size();
  std::string text = xml.substr(begin + open.size(), end - begin - open.size());
  for (const auto& [entity, character] : {std::pair{"&lt;", "<"},
                                          {"&gt;", ">"},
                                          {"&quot;", "\""},
                                          {"&#34;", "\""},
                                          {"&apos;", "'"},
                                          {"&#39;", "'"},
                                          {"&amp;", "&"}}) {
    for (std::size_t i = text.find(entity); i != std::string::npos; i = text.find(entity, i + 1)) {
      text.replace(i, std::string(entity).size(), character);
    }
  }
  return text;
}

std::string element(const std::string& xml, const std::string& name) {
  std::size_t at = 0;
  return element(xml, name, at);
}

}  // namespace

bool is_object_url(const std::string& path) {
  return path.starts_with("s3://");
}

StoreSettings store_settings() {
  StoreSettings s;
  s.region = environment("AWS_REGION", "AWS_DEFAULT_REGION", s.region);
  s.endpoint = environment("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL");
  s.key = environment("AWS_ACCESS_KEY_ID");
  s.secret = environment("AWS_SECRET_ACCESS_KEY");
  s.token = environment("AWS_SESSION_TOKEN");
  s.cache = environment("ISOTONE_OBJECT_CACHE", nullptr, s.cache);
  return s;
}

ObjectStore::ObjectStore(StoreSettings settings) : settings_(std::move(settings)) {
  address_ = parse_address(settings_.endpoint.empty() ? fmt::format("https://s3.{}.amazonaws.com", settings_.region)
                                                      : settings_.endpoint);
}

HttpAnswer ObjectStore::ask(const Question& q, const std::string& url) const {
  const std::string path =
      fmt::format("/{}{}{}", percent_encoded(q.bucket, false), q.key.empty() ? "" : "/", percent_encoded(q.key, true));
  const bool usual = address_.port == (address_.tls ? "443" : "80");
  std::string fault;
  for (int attempt = 0; attempt < settings_.tries; ++attempt) {
    if (attempt > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100 << attempt));
    }
    SignedRequest r{q.method, path, q.query, {}, time_now(), settings_.region, settings_.key, settings_.secret};
    r.headers = {{"host", usual ? address_.host : fmt::format("{}:{}", address_.host, address_.port)}};
    if (!q.etag.empty()) {
      r.headers.emplace_back("if-match", q.etag);
    }
    if (!q.range.empty()) {
      r.headers.emplace_back("range", q.range);
    }
    r.headers.emplace_back("x-amz-content-sha256", kEmptySha256);
    r.headers.emplace_back("x-amz-date", r.time);
    if (!settings_.token.empty()) {
      r.headers.emplace_back("x-amz-security-token", settings_.token);
    }
    Headers headers = r.headers;
    if (!settings_.key.empty()) {
      headers.emplace_back("authorization", authorization(r));
    }
    try {
      HttpAnswer a = http_get(address_, q.method, path + (q.query.empty() ? "" : "?" + q.query), headers, q.most,
                              settings_.seconds);
      if (a.status / 100 == 2) {
        return a;
      }
      fault = fmt::format("status {} {}", a.status, element(a.body, "Code"));
      require(a.status >= 500 || a.status == 429 || a.status == 408, "{}: the store refuses it: {} {}", url, fault,
              element(a.body, "Message"));
    } catch (const Error& e) {
      if (std::string_view(e.what()).starts_with(url)) {
        throw;
      }
      fault = e.what();  // cut off, too slow, not to be reached: worth another try
    }
  }
  fail("{}: {} tries failed, the last with: {}", url, settings_.tries, fault);
}

std::vector<StoredObject> ObjectStore::list(const std::string& url) const {
  const auto [bucket, prefix] = bucket_and_key(url);
  std::vector<StoredObject> out;
  std::string token;
  do {
    Question q;
    q.bucket = bucket;
    q.most = 16U << 20;
    q.query = fmt::format("{}list-type=2&prefix={}",
                          token.empty() ? "" : fmt::format("continuation-token={}&", percent_encoded(token, false)),
                          percent_encoded(prefix, false));
    const std::string xml = ask(q, url).body;
    require(xml.find("<ListBucketResult") != std::string::npos, "{}: the store's answer is no list", url);
    for (std::size_t at = xml.find("<Contents>"); at != std::string::npos; at = xml.find("<Contents>", at)) {
      const std::string one = element(xml, "Contents", at);
      const std::string size = element(one, "Size");
      require(!size.empty() && size.size() < 19 && size.find_first_not_of("0123456789") == std::string::npos,
              "{}: the store lists an object of '{}' bytes", url, size);
      out.push_back({fmt::format("s3://{}/{}", bucket, element(one, "Key")), std::stoull(size), element(one, "ETag")});
    }
    token = element(xml, "IsTruncated") == "true" ? element(xml, "NextContinuationToken") : "";
  } while (!token.empty());
  std::sort(out.begin(), out.end(), [](const StoredObject& a, const StoredObject& b) { return a.url < b.url; });
  return out;
}

StoredObject ObjectStore::look(const std::string& url) const {
  Question q;
  q.method = "HEAD";
  std::tie(q.bucket, q.key) = bucket_and_key(url);
  require(!q.key.empty(), "{}: is a bucket; an object is s3://BUCKET/KEY, and a folder ends in /", url);
  const HttpAnswer a = ask(q, url);
  require(!a.etag.empty(), "{}: the store does not say the object's ETag", url);
  return {url, a.length, a.etag};
}

std::string ObjectStore::fetch(const std::string& url) const {
  const StoredObject object = look(url);
  Question q;
  std::tie(q.bucket, q.key) = bucket_and_key(url);
  q.etag = object.etag;
  q.most = settings_.range + 1;
  const std::size_t dot = q.key.find_last_of("./");
  const std::string ending = dot == std::string::npos || q.key[dot] == '/' ? "" : q.key.substr(dot);
  make_folders(settings_.cache);
  const std::string path = join_path(
      settings_.cache,
      sha256_hex(fmt::format("{}\n{}\n{}\n{}", settings_.endpoint, url, object.etag, object.bytes)).substr(0, 32) +
          ending);
  if (path_exists(path)) {
    return path;
  }
  AtomicFile file(path);
  while (file.position() < object.bytes) {
    const std::uint64_t begin = file.position(), end = std::min(object.bytes, begin + settings_.range);
    q.range = fmt::format("bytes={}-{}", begin, end - 1);
    const HttpAnswer a = ask(q, url);
    // Some stores give a range with status 200; the header says which part came.
    const bool whole = begin == 0 && end == object.bytes;
    require(whole || a.content_range == fmt::format("bytes {}-{}/{}", begin, end - 1, object.bytes),
            "{}: bytes {} to {} were asked for, '{}' came; the store must give ranges", url, begin, end - 1,
            a.content_range);
    require(a.etag.empty() || a.etag == object.etag, "{}: was changed while it was fetched; begin again", url);
    require(a.body.size() == end - begin, "{}: {} bytes came where {} were asked for", url, a.body.size(), end - begin);
    file.write(a.body);
  }
  file.commit();
  return path;
}

}  // namespace isotone::data
