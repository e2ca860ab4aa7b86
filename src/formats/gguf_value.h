// Bytes of GGUF's scalar metadata types, shared by the reader and the accessors.
#pragma once

#include <cstddef>
#include <cstdint>

#include "formats/gguf.h"

namespace isotone::detail {

/// 0 for texts, arrays and unknown types.
std::size_t gguf_scalar_bytes(GgufType type);

/// The scalar at `at` in the form of GgufValue::bits.
std::uint64_t gguf_scalar_bits(GgufType type, const std::byte* at);

}  // namespace isotone::detail
