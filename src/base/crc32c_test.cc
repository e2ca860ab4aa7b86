#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <string>

namespace isotone {
namespace {

// The examples of RFC 3720, appendix B.4, and the check value of the CRC catalogue.
TEST(Crc32c, KnownValues) {
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43U);
  std::string up;
  for (char c = 0; c < 32; ++c) {
    up += c;
  }
  EXPECT_EQ(crc32c(up), 0x46DD794EU);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(""), 0U);
}

}  // namespace
}  // namespace isotone
