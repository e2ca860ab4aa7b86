// A small state machine over the JSON library's events. States follow the nesting of the only legal form:
// { "__metadata__": {text: text}, name: { "dtype": text, "shape": [n...], "data_offsets": [begin, end] }, ... }
#include "formats/safetensors_header.h"

#include <array>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "formats/json_text.h"

namespace isotone::detail {
namespace {

struct DTypeRow {
  std::string_view name;
  unsigned bits;
  std::optional<DType> dtype;
};

constexpr std::array<DTypeRow, 20> kDTypes = {
    {{"F32", 32, DType::f32},      {"BF16", 16, DType::bf16},    {"F16", 16, DType::f16},
     {"I8", 8, DType::i8},         {"U8", 8, DType::u8},         {"I32", 32, DType::i32},
     {"I64", 64, DType::i64},      {"BOOL", 8, DType::boolean},  {"F64", 64, std::nullopt},
     {"C64", 64, std::nullopt},    {"U16", 16, std::nullopt},    {"I16", 16, std::nullopt},
     {"U32", 32, std::nullopt},    {"U64", 64, std::nullopt},    {"F8_E4M3", 8, std::nullopt},
     {"F8_E5M2", 8, std::nullopt}, {"F8_E8M0", 8, std::nullopt}, {"F6_E2M3", 6, std::nullopt},
     {"F6_E3M2", 6, std::nullopt}, {"F4", 4, std::nullopt}}};
constexpr std::size_t kMaxDims = 32;

const DTypeRow* find_dtype(std::string_view name) {
  for (const DTypeRow& row : kDTypes) {
    if (row.name == name) {
      return &row;
    }
  }
  return nullptr;
}

class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderReader(SafetensorsHeader& out, const std::string& path) : out_(out), path_(path) {}

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("true or false"); }
  bool number_integer(number_integer_t) override { return unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t& text) override { return unexpected("the number " + text); }
  bool binary(binary_t&) override { return unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::shape) {
      if (entry_.shape.size() >= kMaxDims || value > std::uint64_t{1} << 62) {
        fail("{}: tensor '{}': shape with more than {} dimensions or a dimension beyond 2^62", path_, entry_.name,
             kMaxDims);
      }
      entry_.shape.push_back(static_cast<std::int64_t>(value));
      return true;
    }
    if (place_ == Place::offsets && offsets_ < 2) {
      (offsets_++ == 0 ? entry_.begin : entry_.end) = value;
      return true;
    }
    return unexpected("a number");
  }

  bool string(string_t& text) override {
    if (place_ == Place::metadata) {
      out_.metadata.emplace(key_, std::move(text));
      return true;
    }
    if (place_ == Place::entry && key_ == "dtype") {
      const DTypeRow* row = find_dtype(text);
      if (row == nullptr) {
        fail("{}: tensor '{}': unknown dtype '{}'", path_, entry_.name, text);
      }
      entry_.dtype_text = std::move(text);
      entry_.dtype = row->dtype;
      return true;
    }
    return unexpected("a text");
  }

  bool start_object(std::size_t) override {
    if (place_ == Place::outside) {
      place_ = Place::top;
      return true;
    }
    if (place_ == Place::top) {
      place_ = key_ == "__metadata__" ? Place::metadata : Place::entry;
      entry_ = {};
      entry_.name = key_;
      seen_ = 0;
      return true;
    }
    return unexpected("an object");
  }

  bool end_object() override {
    if (place_ == Place::entry) {
      if (seen_ != 7U) {
        fail("{}: tensor '{}': needs dtype, shape and data_offsets", path_, entry_.name);
      }
      out_.entries.push_back(std::move(entry_));
    }
    place_ = place_ == Place::top ? Place::outside : Place::top;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ == Place::entry && key_ == "shape") {
      place_ = Place::shape;
      return true;
    }
    if (place_ == Place::entry && key_ == "data_offsets") {
      place_ = Place::offsets;
      offsets_ = 0;
      return true;
    }
    return unexpected("a list");
  }

  bool end_array() override {
    if (place_ == Place::offsets && offsets_ != 2) {
      fail("{}: tensor '{}': data_offsets needs two numbers, found {}", path_, entry_.name, offsets_);
    }
    place_ = Place::entry;
    return true;
  }

  bool key(string_t& name) override {
    key_ = std::move(name);
    if (place_ == Place::top && !names_.insert(key_).second) {
      fail("{}: the key '{}' stands twice in the header", path_, key_);
    }
    if (place_ == Place::metadata && out_.metadata.contains(key_)) {
      fail("{}: the key '{}' stands twice in __metadata__", path_, key_);
    }
    if (place_ == Place::entry) {
      const unsigned bit = key_ == "dtype" ? 1U : key_ == "shape" ? 2U : key_ == "data_offsets" ? 4U : 0U;
      if (bit == 0) {
        fail("{}: tensor '{}': unknown key '{}'", path_, entry_.name, key_);
      }
      if ((seen_ & bit) != 0) {
        fail("{}: tensor '{}': the key '{}' stands twice", path_, entry_.name, key_);
      }
      seen_ |= bit;
    }
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& error) override {
    fail("{}: the header is not valid JSON: {}", path_, json_error_text(error));
  }

 private:
  enum class Place { outside, top, metadata, entry, shape, offsets };

  [[nodiscard]] bool unexpected(const std::string& found) const {
    switch (place_) {
      case Place::outside:
        fail("{}: the header must be a JSON object, found {}", path_, found);
      case Place::top:
        fail("{}: the value of '{}' must be an object, found {}", path_, key_, found);
      case Place::metadata:
        fail("{}: __metadata__ must map texts to texts, found {} at '{}'", path_, found, key_);
      default:
        fail("{}: tensor '{}': '{}' does not allow {}", path_, entry_.name, key_, found);
    }
  }

  SafetensorsHeader& out_;
  const std::string& path_;
  Place place_ = Place::outside;
  std::string key_;
  SafetensorsEntry entry_;
  unsigned seen_ = 0;
  int offsets_ = 0;
  std::unordered_set<std::string> names_;
};

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text, const std::string& path) {
  SafetensorsHeader header;
  HeaderReader reader(header, path);
  nlohmann::json::sax_parse(text, &reader);
  return header;
}

unsigned safetensors_dtype_bits(std::string_view name) {
  const DTypeRow* row = find_dtype(name);
  return row == nullptr ? 0 : row->bits;
}

}  // namespace isotone::detail

namespace isotone {

std::string_view safetensors_dtype_name(DType dtype) {
  for (const detail::DTypeRow& row : detail::kDTypes) {
    if (row.dtype == dtype) {
      return row.name;
    }
  }
  fail("safetensors cannot hold {} tensors; dequantise them to f32, bf16 or f16 first", dtype_name(dtype));
}

}  // namespace isotone
