#include "base/crc32c.h"

#include <array>

namespace isotone {
namespace {

constexpr std::array<std::uint32_t, 256> kTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) {
      c = (c & 1U) != 0 ? (c >> 1U) ^ 0x82F63B78U : c >> 1U;
    }
    table[i] = c;
  }
  return table;
}();

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t c = 0xFFFFFFFFU;
  for (const char b : bytes) {
    c = kTable[(c ^ static_cast<unsigned char>(b)) & 0xFFU] ^ (c >> 8U);
  }
  return ~c;
}

}  // namespace isotone
