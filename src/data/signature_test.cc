// Signatures against the example in Amazon's documentation; addresses and encodings of requests.
#include "data/signature.h"

#include <gtest/gtest.h>

#include "base/error_for_tests.h"
#include "data/http_get.h"
#include "data/object_store.h"

namespace isotone::data {
namespace {

TEST(Signature, IsTheDocumentedOne) {
  // "Examples: Signature Calculations", GET Object with a range.
  const SignedRequest r{"GET",
                        "/test.txt",
                        "",
                        {{"host", "examplebucket.s3.amazonaws.com"},
                         {"range", "bytes=0-9"},
                         {"x-amz-content-sha256", kEmptySha256},
                         {"x-amz-date", "20130524T000000Z"}},
                        "20130524T000000Z",
                        "us-east-1",
                        "AKIAIOSFODNN7EXAMPLE",
                        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"};
  EXPECT_EQ(authorization(r),
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
            "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
            "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

TEST(Signature, PercentEncoding) {
  EXPECT_EQ(percent_encoded("a b/ü+&=~.-_", true), "a%20b/%C3%BC%2B%26%3D~.-_");
  EXPECT_EQ(percent_encoded("a/b", false), "a%2Fb");
}

TEST(HttpAddress, HostsAndPorts) {
  const HttpAddress plain = parse_address("http://127.0.0.1:9000/");
  EXPECT_FALSE(plain.tls);
  EXPECT_EQ(plain.host, "127.0.0.1");
  EXPECT_EQ(plain.port, "9000");
  const HttpAddress tls = parse_address("https://s3.eu-central-1.amazonaws.com");
  EXPECT_TRUE(tls.tls);
  EXPECT_EQ(tls.port, "443");
  for (const char* bad : {"", "ftp://x", "http://", "http://a:b", "http://a/b", "http://user@host", "https://:443"}) {
    EXPECT_NE(error_of([&] { parse_address(bad); }).find("no address"), std::string::npos) << bad;
  }
}

TEST(ObjectStore, NobodyAtThePort) {
  StoreSettings s;
  s.endpoint = "http://127.0.0.1:1";
  s.tries = 2;
  const std::string said = error_of([&] { static_cast<void>(ObjectStore(s).list("s3://bucket/a/")); });
  EXPECT_NE(said.find("s3://bucket/a/: 2 tries failed"), std::string::npos) << said;
}

}  // namespace
}  // namespace isotone::data
