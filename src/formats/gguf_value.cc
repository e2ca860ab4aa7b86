// Metadata values of GGUF: access with messages that name the key, what was asked and what is there.
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "formats/gguf.h"
#include "formats/gguf_value.h"

namespace isotone {
namespace {

bool is_integer_type(GgufType t) {
  return t != GgufType::f32 && t != GgufType::f64 && t != GgufType::boolean && t != GgufType::text &&
         t != GgufType::array;
}

bool is_signed_type(GgufType t) {
  return t == GgufType::i8 || t == GgufType::i16 || t == GgufType::i32 || t == GgufType::i64;
}

[[noreturn]] void fail_type(const GgufValue& value, std::string_view asked) {
  fail("GGUF metadata '{}' is {}{}, {} was expected", value.key, value.type == GgufType::array ? "an array of " : "",
       gguf_type_name(value.type == GgufType::array ? value.element : value.type), asked);
}

template <class T>
T read_as(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

}  // namespace

std::string_view gguf_type_name(GgufType type) {
  constexpr std::array<std::string_view, 13> names = {"u8",   "i8",   "u16",   "i16", "u32", "i32", "f32",
                                                      "bool", "text", "array", "u64", "i64", "f64"};
  const auto i = static_cast<std::size_t>(type);
  return i < names.size() ? names[i] : "an unknown type";
}

std::size_t detail::gguf_scalar_bytes(GgufType type) {
  constexpr std::array<std::size_t, 13> sizes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  const auto i = static_cast<std::size_t>(type);
  return i < sizes.size() ? sizes[i] : 0;
}

std::uint64_t detail::gguf_scalar_bits(GgufType type, const std::byte* at) {
  switch (type) {
    case GgufType::u8:
    case GgufType::boolean:
      return read_as<std::uint8_t>(at);
    case GgufType::i8:
      return static_cast<std::uint64_t>(static_cast<std::int64_t>(read_as<std::int8_t>(at)));
    case GgufType::u16:
      return read_as<std::uint16_t>(at);
    case GgufType::i16:
      return static_cast<std::uint64_t>(static_cast<std::int64_t>(read_as<std::int16_t>(at)));
    case GgufType::u32:
      return read_as<std::uint32_t>(at);
    case GgufType::i32:
      return static_cast<std::uint64_t>(static_cast<std::int64_t>(read_as<std::int32_t>(at)));
    case GgufType::f32:
      return std::bit_cast<std::uint64_t>(static_cast<double>(read_as<float>(at)));
    case GgufType::u64:
    case GgufType::i64:
    case GgufType::f64:
      return read_as<std::uint64_t>(at);
    default:
      return 0;
  }
}

std::uint64_t GgufValue::as_unsigned() const {
  if (!is_integer_type(type) || (is_signed_type(type) && static_cast<std::int64_t>(bits) < 0)) {
    fail_type(*this, "an integer that is not negative");
  }
  return bits;
}

std::int64_t GgufValue::as_integer() const {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!is_integer_type(type) || (type == GgufType::u64 && bits > kMost)) {
    fail_type(*this, "an integer");
  }
  return static_cast<std::int64_t>(bits);
}

double GgufValue::as_number() const {
  if (type == GgufType::f32 || type == GgufType::f64) {
    return std::bit_cast<double>(bits);
  }
  if (!is_integer_type(type)) {
    fail_type(*this, "a number");
  }
  return is_signed_type(type) ? static_cast<double>(static_cast<std::int64_t>(bits)) : static_cast<double>(bits);
}

bool GgufValue::as_boolean() const {
  if (type != GgufType::boolean) {
    fail_type(*this, "a boolean");
  }
  return bits != 0;
}

std::string_view GgufValue::as_text() const {
  if (type != GgufType::text) {
    fail_type(*this, "a text");
  }
  return string;
}

const std::vector<std::string_view>& GgufValue::as_texts() const {
  if (type != GgufType::array || element != GgufType::text) {
    fail_type(*this, "an array of texts");
  }
  return strings;
}

GgufValue GgufValue::at(std::uint64_t index) const {
  const std::size_t width = detail::gguf_scalar_bytes(element);
  if (type != GgufType::array || width == 0) {
    fail_type(*this, "an array of numbers");
  }
  require(index < count, "GGUF metadata '{}': element {} of {} was asked for", key, index, count);
  GgufValue value;
  value.key = key;
  value.type = element;
  value.bits = detail::gguf_scalar_bits(element, raw.data() + index * width);
  return value;
}

}  // namespace isotone
