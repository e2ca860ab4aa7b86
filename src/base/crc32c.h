// CRC-32C (Castagnoli), the checksum of record files.
#pragma once

#include <cstdint>
#include <string_view>

namespace isotone {

/// Reflected polynomial 0x82F63B78, begun and ended with all bits turned (RFC 3720, appendix B.4).
std::uint32_t crc32c(std::string_view bytes);

}  // namespace isotone
