// ggml's tensor types: number, name, block length, bytes of a block.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/dtype.h"

namespace isotone::detail {

struct GgmlType {
  std::uint32_t number;
  std::string_view name;
  std::uint32_t block;        ///< elements in a block
  std::uint32_t block_bytes;  ///< bytes of a block
  std::optional<DType> dtype;
};

/// nullptr for a number we do not know.
const GgmlType* find_ggml_type(std::uint32_t number);

}  // namespace isotone::detail
