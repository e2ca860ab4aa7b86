// Builds GGUF and safetensors bytes piece by piece, so that tests can break one rule at a time. Tests only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "formats/gguf.h"

namespace isotone::testing {

inline std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

template <class T>
std::string raw(T value) {
  std::string out(sizeof value, '\0');
  std::memcpy(out.data(), &value, sizeof value);
  return out;
}

inline std::string gguf_text(std::string_view text) {
  return raw<std::uint64_t>(text.size()) + std::string(text);
}

/// A metadata entry with its value's bytes given.
inline std::string gguf_entry(std::string_view key, GgufType type, const std::string& value) {
  return gguf_text(key) + raw(static_cast<std::uint32_t>(type)) + value;
}

inline std::string gguf_array(GgufType element, std::uint64_t count, const std::string& values) {
  return raw(static_cast<std::uint32_t>(element)) + raw(count) + values;
}

struct GgufBuilder {
  std::string magic = "GGUF";
  std::uint32_t version = 3;
  std::vector<std::string> metadata;
  std::vector<std::string> infos;
  std::string data;
  std::uint64_t alignment = 32;
  std::int64_t extra_tensors = 0;   ///< added to the written count
  std::int64_t extra_metadata = 0;  ///< added to the written count

  GgufBuilder& add(std::string_view key, GgufType type, const std::string& value) {
    metadata.push_back(gguf_entry(key, type, value));
    return *this;
  }
  GgufBuilder& text(std::string_view key, std::string_view value) { return add(key, GgufType::text, gguf_text(value)); }
  GgufBuilder& number(std::string_view key, std::uint32_t value) { return add(key, GgufType::u32, raw(value)); }
  GgufBuilder& real(std::string_view key, float value) { return add(key, GgufType::f32, raw(value)); }

  /// `dims` in the file's order (the row's length first); the offset is the end of the data so far.
  GgufBuilder& info(std::string_view name, const std::vector<std::uint64_t>& dims, std::uint32_t type,
                    std::uint64_t offset) {
    std::string out = gguf_text(name) + raw(static_cast<std::uint32_t>(dims.size()));
    for (const std::uint64_t d : dims) {
      out += raw(d);
    }
    infos.push_back(out + raw(type) + raw(offset));
    return *this;
  }
  GgufBuilder& tensor(std::string_view name, const std::vector<std::uint64_t>& dims, std::uint32_t type,
                      const std::string& content) {
    info(name, dims, type, data.size());
    data += content;
    data.resize((data.size() + alignment - 1) / alignment * alignment, '\0');
    return *this;
  }

  [[nodiscard]] std::string build() const {
    std::string out = magic + raw(version) + raw<std::uint64_t>(infos.size() + extra_tensors) +
                      raw<std::uint64_t>(metadata.size() + extra_metadata);
    for (const std::string& m : metadata) {
      out += m;
    }
    for (const std::string& i : infos) {
      out += i;
    }
    out.resize((out.size() + alignment - 1) / alignment * alignment, '\0');
    return out + data;
  }
};

/// A safetensors file of a header's text and data.
inline std::string safetensors_bytes(const std::string& header, const std::string& data) {
  return raw<std::uint64_t>(header.size()) + header + data;
}

/// A small number generator with a fixed sequence (xorshift), for mutations.
struct Dice {
  std::uint64_t state;
  std::uint64_t next() {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
  }
  std::uint64_t below(std::uint64_t n) { return next() % n; }
};

/// One to four changes: a byte set, a bit flipped, a u64 overwritten with an extreme value, a cut, a repeat.
inline std::string mutate(const std::string& original, Dice& dice) {
  std::string out = original;
  const std::uint64_t changes = 1 + dice.below(4);
  for (std::uint64_t i = 0; i < changes && !out.empty(); ++i) {
    const std::size_t at = dice.below(out.size());
    switch (dice.below(6)) {
      case 0:
        out[at] = static_cast<char>(dice.next());
        break;
      case 1:
        out[at] = static_cast<char>(out[at] ^ (1 << dice.below(8)));
        break;
      case 2:
      case 3: {
        constexpr std::uint64_t kExtreme[] = {0, 1, 0xff, 0xffff, 0xffffffff, 0x7fffffffffffffff, ~0ULL, 1ULL << 62};
        const std::string value = raw(kExtreme[dice.below(8)]);
        const std::size_t n = std::min<std::size_t>(dice.below(2) == 0 ? 8 : 4, out.size() - at);
        out.replace(at, n, value, 0, n);
        break;
      }
      case 4:
        out.resize(at);
        break;
      default:
        out.insert(at, out.substr(at, dice.below(40)));
        break;
    }
  }
  return out;
}

/// The message of the error that `body` throws, or "(no error)". Any other exception goes through and fails the test.
inline std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "(no error)";
}

}  // namespace isotone::testing
