// The JSON header of a safetensors file, read event by event: hostile headers of 100 MB build no tree in memory.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/safetensors.h"

namespace isotone::detail {

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  ///< as they stand in the header
  StringMap metadata;
};

/// Checks the header's own rules (form, keys, types, dtype names); sizes and offsets are the reader's business.
SafetensorsHeader parse_safetensors_header(std::string_view text, const std::string& path);

/// Bits of one element by the format's dtype name; 0 for an unknown name.
unsigned safetensors_dtype_bits(std::string_view name);

}  // namespace isotone::detail
