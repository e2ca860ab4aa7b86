// The safetensors of a model folder: one file, or several named by model.safetensors.index.json; and writing them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "formats/safetensors.h"

namespace isotone {

inline constexpr std::string_view kSafetensorsFile = "model.safetensors";
inline constexpr std::string_view kSafetensorsIndex = "model.safetensors.index.json";

/// All tensors of a folder by name. With an index file: the shards it names, each tensor where the index says (file
/// names that leave the folder are refused; tensors in a shard that the index does not list are ignored). Without:
/// model.safetensors, or else every *.safetensors file of the folder. Throws Error naming what is missing or twice.
class SafetensorsFolder {
 public:
  explicit SafetensorsFolder(const std::string& folder);

  [[nodiscard]] const std::vector<std::unique_ptr<Safetensors>>& files() const { return files_; }
  /// Sorted.
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  [[nodiscard]] bool contains(std::string_view name) const;
  /// The file that holds a tensor; throws Error where there is none.
  [[nodiscard]] const Safetensors& file_of(std::string_view name) const;
  [[nodiscard]] TensorView tensor(std::string_view name) const { return file_of(name).tensor(name); }

 private:
  void open_index(const std::string& path);
  void open_files(const std::vector<std::string>& paths);

  std::string folder_;
  std::vector<std::unique_ptr<Safetensors>> files_;
  std::unordered_map<std::string, std::size_t> file_of_;
  std::vector<std::string> names_;
};

/// Gives the bytes of a tensor that is being written; called once for each, and the span is used before the next call.
using TensorSource = std::function<std::span<const std::byte>(const TensorSpec&)>;

inline constexpr std::uint64_t kDefaultShardBytes = std::uint64_t{5} << 30;

/// Writes model.safetensors into `folder`, or, beyond `max_shard_bytes`, model-00001-of-0000N.safetensors and the index
/// (written last, so an interrupted writer leaves no index to a missing file). Tensors are shared out in name order.
/// A single tensor larger than the limit gets a shard of its own.
void write_safetensors_folder(const std::string& folder, const std::vector<TensorSpec>& specs,
                              const TensorSource& source, const StringMap& metadata = {{"format", "pt"}},
                              std::uint64_t max_shard_bytes = kDefaultShardBytes);

}  // namespace isotone
