// How much of a byte string is whole UTF-8, for decoding piece by piece.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace isotone::text {

/// Bytes of the incomplete but so far valid sequence at the end of `bytes`: 0 to 3.
std::size_t incomplete_tail(std::string_view bytes);

/// `bytes` with every maximal invalid part as one U+FFFD (the practice that the Unicode standard recommends).
std::string repair_utf8(std::string_view bytes);

}  // namespace isotone::text
