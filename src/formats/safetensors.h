// safetensors: a strict reader over mapped memory, and a streaming writer.
// Format: https://github.com/huggingface/safetensors#format (u64 header length, JSON header, one byte buffer).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/file.h"
#include "formats/tensor_view.h"

namespace isotone {

using StringMap = std::map<std::string, std::string>;

/// Longest header that is accepted, as in the reference implementation.
inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;

/// One entry of a header. `dtype` is empty for those that we can list but not hold (F64, F8_E4M3, ...).
struct SafetensorsEntry {
  std::string name;
  std::string dtype_text;
  std::optional<DType> dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  ///< first byte in the buffer
  std::uint64_t end = 0;    ///< one past the last byte
  [[nodiscard]] std::uint64_t bytes() const { return end - begin; }
};

/// A parsed file. All rules are checked on construction: header length and form, UTF-8 JSON without duplicate keys,
/// known dtypes, shape times dtype equal to the bytes, data offsets ascending from 0 without holes or overlaps to the
/// end of the file. Throws Error naming the file, the tensor and the rule.
class Safetensors {
 public:
  /// Maps a file.
  explicit Safetensors(const std::string& path);
  /// Reads bytes that the caller keeps alive; `name` is for messages.
  Safetensors(std::span<const std::byte> bytes, std::string name);

  [[nodiscard]] const std::string& path() const { return path_; }
  /// In the order of their data.
  [[nodiscard]] const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  [[nodiscard]] const StringMap& metadata() const { return metadata_; }
  /// nullptr where there is none.
  [[nodiscard]] const SafetensorsEntry* find(std::string_view name) const;
  /// The bytes of an entry, whatever its dtype.
  [[nodiscard]] std::span<const std::byte> data(const SafetensorsEntry& entry) const;
  /// Throws Error where the tensor is missing or of a dtype we cannot hold. The view keeps the map alive.
  [[nodiscard]] TensorView tensor(std::string_view name) const;
  /// Asks the system to read the file ahead.
  void prefetch() const;

 private:
  void parse(std::span<const std::byte> bytes);

  std::string path_;
  std::shared_ptr<const MappedFile> file_;
  std::span<const std::byte> buffer_;
  std::vector<SafetensorsEntry> entries_;
  std::unordered_map<std::string, std::size_t> by_name_;
  StringMap metadata_;
};

/// "F32", "BF16", ...; throws Error for block-quantised dtypes, which the format has no name for.
std::string_view safetensors_dtype_name(DType dtype);

/// Where everything lies in a file of these tensors: widest dtype first, then by name; data begins at a multiple of 64
/// bytes, so every tensor is aligned for its dtype. The same tensors give the same bytes, whoever writes which.
struct SafetensorsPlan {
  /// `path` is for messages.
  SafetensorsPlan(const std::string& path, std::vector<TensorSpec> specs, const StringMap& metadata = {});

  std::string head;                    ///< the bytes before the data
  std::vector<TensorSpec> tensors;     ///< in the order of their data
  std::vector<std::uint64_t> offsets;  ///< of each tensor's first byte in the file; one more for the end
};

/// Writes a file tensor by tensor, so no second copy of all data is needed: the header is known from the specs alone.
/// Tensors lie in the order of `order()` (SafetensorsPlan). The file appears with `finish()`.
class SafetensorsWriter {
 public:
  SafetensorsWriter(const std::string& path, std::vector<TensorSpec> specs, const StringMap& metadata = {});

  /// The order in which data must be written.
  [[nodiscard]] const std::vector<TensorSpec>& order() const { return specs_; }
  /// The next bytes of the next tensor; one tensor may come in several pieces, a piece never spans two tensors.
  void write(std::span<const std::byte> bytes);
  /// Throws Error when bytes are missing.
  void finish();

 private:
  AtomicFile file_;
  std::string path_;
  std::vector<TensorSpec> specs_;
  std::size_t current_ = 0;
  std::size_t written_ = 0;
};

/// All at once, from views.
void save_safetensors(const std::string& path, const std::vector<TensorView>& tensors, const StringMap& metadata = {});

}  // namespace isotone
