// Element types of tensors, block-quantised storage included, and their sizes and names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace isotone {

/// The last three are storage kinds of weights in blocks of 32 along the last dimension (GGUF's layouts):
/// q4_0 {f16 d; u8 q[16]}: (q-8)*d; q4_1 {f16 d, m; u8 q[16]}: q*d+m; q8_0 {f16 d; i8 q[32]}: q*d.
/// In q4 blocks byte j holds element j in its low and element j+16 in its high nibble.
enum class DType : std::uint8_t { f32, bf16, f16, i8, u8, i32, i64, boolean, q4_0, q4_1, q8_0 };

inline constexpr int kDTypeCount = 11;
inline constexpr std::int64_t kQuantBlock = 32;

constexpr bool is_quantised(DType t) {
  return t >= DType::q4_0;
}
constexpr bool is_float(DType t) {
  return t <= DType::f16;
}
constexpr bool is_integer(DType t) {
  return t >= DType::i8 && t <= DType::i64;
}

/// Bytes of one element; for quantised types the bytes of one block of 32.
constexpr std::size_t unit_bytes(DType t) {
  constexpr std::size_t sizes[kDTypeCount] = {4, 2, 2, 1, 1, 4, 8, 1, 18, 20, 34};
  return sizes[static_cast<int>(t)];
}

/// Bytes of `elements` elements; for quantised types `elements` is a multiple of 32.
constexpr std::size_t storage_bytes(DType t, std::int64_t elements) {
  return is_quantised(t) ? static_cast<std::size_t>(elements / kQuantBlock) * unit_bytes(t)
                         : static_cast<std::size_t>(elements) * unit_bytes(t);
}

constexpr std::string_view dtype_name(DType t) {
  constexpr std::string_view names[kDTypeCount] = {"f32", "bf16", "f16",  "i8",   "u8",  "i32",
                                                   "i64", "bool", "q4_0", "q4_1", "q8_0"};
  return names[static_cast<int>(t)];
}

/// The dtype with this name; throws Error listing the names otherwise.
DType parse_dtype(std::string_view name);

}  // namespace isotone
