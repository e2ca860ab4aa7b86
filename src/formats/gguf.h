// GGUF versions 2 and 3: a reader that checks every count, offset and length against the file before it is used.
// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/file.h"
#include "formats/tensor_view.h"

namespace isotone {

enum class GgufType : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, text, array, u64, i64, f64 };

std::string_view gguf_type_name(GgufType type);

/// A metadata value. Texts and arrays point into the file's bytes, so arrays of millions of numbers cost nothing.
struct GgufValue {
  std::string key;  ///< for messages
  GgufType type = GgufType::u8;
  std::uint64_t bits = 0;   ///< integers sign-extended; f32 and f64 as an f64's bits; booleans 0 or 1
  std::string_view string;  ///< of a text
  // Of an array:
  GgufType element = GgufType::u8;
  std::uint64_t count = 0;
  std::span<const std::byte> raw;         ///< elements of an array of numbers or booleans, unaligned
  std::vector<std::string_view> strings;  ///< elements of an array of texts
  std::vector<GgufValue> nested;          ///< elements of an array of arrays

  // Each throws Error naming the key, what was asked and what is there.
  [[nodiscard]] std::uint64_t as_unsigned() const;  ///< any integer that is not negative
  [[nodiscard]] std::int64_t as_integer() const;    ///< any integer that fits
  [[nodiscard]] double as_number() const;           ///< any integer or float
  [[nodiscard]] bool as_boolean() const;
  [[nodiscard]] std::string_view as_text() const;
  [[nodiscard]] const std::vector<std::string_view>& as_texts() const;
  /// Element `index` of an array of numbers or booleans, as a scalar value.
  [[nodiscard]] GgufValue at(std::uint64_t index) const;
};

/// A tensor as the file lists it. Shapes are row-major: the file's dimensions reversed, so a weight is [out, in].
struct GgufTensor {
  std::string name;
  std::uint32_t type = 0;      ///< ggml's number
  std::string_view type_text;  ///< "Q4_1"
  std::optional<DType> dtype;  ///< empty for those that we can list but not compute with (Q4_K, ...)
  std::vector<std::int64_t> shape;
  std::uint64_t offset = 0;  ///< from the start of the data
  std::uint64_t bytes = 0;
};

/// A parsed file; throws Error on construction naming the file, the entry and the rule broken.
class Gguf {
 public:
  explicit Gguf(const std::string& path);
  /// Reads bytes that the caller keeps alive; `name` is for messages.
  Gguf(std::span<const std::byte> bytes, std::string name);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::uint32_t version() const { return version_; }
  [[nodiscard]] std::uint64_t alignment() const { return alignment_; }
  /// In file order.
  [[nodiscard]] const std::vector<GgufValue>& metadata() const { return metadata_; }
  [[nodiscard]] const std::vector<GgufTensor>& tensors() const { return tensors_; }
  /// nullptr where there is none.
  [[nodiscard]] const GgufValue* find_metadata(std::string_view key) const;
  /// Throws Error where there is none.
  [[nodiscard]] const GgufValue& require_metadata(std::string_view key) const;
  [[nodiscard]] const GgufTensor* find_tensor(std::string_view name) const;
  /// The bytes of a tensor, whatever its type.
  [[nodiscard]] std::span<const std::byte> data(const GgufTensor& tensor) const;
  /// Throws Error where it is missing or of a type we cannot compute with. The view keeps the map alive.
  [[nodiscard]] TensorView tensor(std::string_view name) const;
  /// Asks the system to read the file ahead.
  void prefetch() const;

 private:
  void parse(std::span<const std::byte> bytes);
  void check_layout(std::uint64_t available);

  std::string path_;
  std::shared_ptr<const MappedFile> file_;
  std::uint32_t version_ = 0;
  std::uint64_t alignment_ = 32;
  std::vector<GgufValue> metadata_;
  std::vector<GgufTensor> tensors_;
  std::unordered_map<std::string, std::size_t> metadata_by_key_;
  std::unordered_map<std::string, std::size_t> tensor_by_name_;
  std::span<const std::byte> data_;
};

/// llama.cpp stores the rows of the q and k projections of the Llama architecture in interleaved rotary order: within
/// a head, row 2i+j of the file is row j*head_dim/2+i of the Hugging Face layout (rotation by halves). This returns
/// the rows in Hugging Face order. `rows` is n_heads*head_dim; a row is `bytes.size()/rows` bytes and stays whole, so
/// quantised rows are fine. Throws Error when the sizes do not divide.
std::vector<std::byte> unpermute_rotary_rows(std::span<const std::byte> bytes, std::int64_t rows, std::int64_t n_heads);

/// The inverse: Hugging Face order to the file's.
std::vector<std::byte> permute_rotary_rows(std::span<const std::byte> bytes, std::int64_t rows, std::int64_t n_heads);

}  // namespace isotone
