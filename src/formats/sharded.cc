// Index files are hostile input: file names in them must be plain names of the same folder.
#include "formats/sharded.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "formats/json_text.h"

namespace isotone {
namespace {

constexpr std::string_view kSuffix = ".safetensors";
constexpr std::size_t kMaxIndexBytes = std::size_t{64} << 20;

void check_shard_name(const std::string& name, const std::string& index) {
  const bool plain = name.find('/') == std::string::npos && name.find('\\') == std::string::npos &&
                     name.find('\0') == std::string::npos && name.ends_with(kSuffix) && name.size() > kSuffix.size() &&
                     name.front() != '.';
  if (!plain) {
    fail("{}: the shard name {} is refused: it must be the name of a .safetensors file in the same folder", index,
         json_line(Json(name)));
  }
}

}  // namespace

SafetensorsFolder::SafetensorsFolder(const std::string& folder) : folder_(folder) {
  const std::string index = join_path(folder, kSafetensorsIndex);
  const std::string single = join_path(folder, kSafetensorsFile);
  if (path_exists(index)) {
    open_index(index);
  } else if (path_exists(single)) {
    open_files({single});
  } else {
    std::vector<std::string> paths;
    for (const std::string& name : list_folder(folder)) {
      if (name.ends_with(kSuffix)) {
        paths.push_back(join_path(folder, name));
      }
    }
    require(!paths.empty(), "{}: no .safetensors file in this folder", folder);
    open_files(paths);
  }
  for (const auto& entry : file_of_) {
    names_.push_back(entry.first);
  }
  std::sort(names_.begin(), names_.end());
}

void SafetensorsFolder::open_files(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    files_.push_back(std::make_unique<Safetensors>(path));
    for (const SafetensorsEntry& entry : files_.back()->entries()) {
      const auto [at, inserted] = file_of_.emplace(entry.name, files_.size() - 1);
      require(inserted, "{}: tensor '{}' stands in {} and in {}", folder_, entry.name, files_[at->second]->path(),
              path);
    }
  }
}

void SafetensorsFolder::open_index(const std::string& path) {
  const Json index = parse_json(read_text_file(path, kMaxIndexBytes), path);
  require(index.is_object() && index.contains("weight_map") && index["weight_map"].is_object(),
          "{}: needs an object 'weight_map'", path);
  std::unordered_map<std::string, std::size_t> opened;
  for (const auto& item : index["weight_map"].items()) {
    require(item.value().is_string(), "{}: weight_map['{}'] must be a file name", path, item.key());
    const std::string name = item.value().get<std::string>();
    const auto [at, fresh] = opened.emplace(name, files_.size());
    if (fresh) {
      check_shard_name(name, path);
      const std::string shard = join_path(folder_, name);
      require(path_exists(shard), "{}: the shard {} is missing; fetch the model again", path, name);
      files_.push_back(std::make_unique<Safetensors>(shard));
    }
    require(files_[at->second]->find(item.key()) != nullptr, "{}: the shard {} does not hold the tensor '{}'", path,
            name, item.key());
    file_of_.emplace(item.key(), at->second);
  }
}

bool SafetensorsFolder::contains(std::string_view name) const {
  return file_of_.contains(std::string(name));
}

const Safetensors& SafetensorsFolder::file_of(std::string_view name) const {
  const auto it = file_of_.find(std::string(name));
  if (it == file_of_.end()) {
    fail("{}: no tensor '{}' among its {}", folder_, name, names_.size());
  }
  return *files_[it->second];
}

void write_safetensors_folder(const std::string& folder, const std::vector<TensorSpec>& specs,
                              const TensorSource& source, const StringMap& metadata, std::uint64_t max_shard_bytes) {
  require(max_shard_bytes > 0, "{}: the largest shard must have more than 0 bytes", folder);
  make_folders(folder);
  std::vector<TensorSpec> sorted = specs;
  std::sort(sorted.begin(), sorted.end(), [](const TensorSpec& a, const TensorSpec& b) { return a.name < b.name; });
  std::vector<std::vector<TensorSpec>> shards(1);
  std::uint64_t in_shard = 0;
  std::uint64_t total = 0;
  for (TensorSpec& spec : sorted) {
    const std::uint64_t bytes = spec.bytes();
    if (!shards.back().empty() && in_shard + bytes > max_shard_bytes) {
      shards.emplace_back();
      in_shard = 0;
    }
    in_shard += bytes;
    total += bytes;
    shards.back().push_back(std::move(spec));
  }
  Json weight_map = Json::object();
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name = shards.size() == 1 ? std::string(kSafetensorsFile)
                                                : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    SafetensorsWriter writer(join_path(folder, name), shards[i], metadata);
    for (const TensorSpec& spec : writer.order()) {
      const std::span<const std::byte> bytes = source(spec);
      require(bytes.size() == spec.bytes(), "{}: tensor '{}' needs {} bytes, {} were given", folder, spec.name,
              spec.bytes(), bytes.size());
      writer.write(bytes);
    }
    writer.finish();
    for (const TensorSpec& spec : shards[i]) {
      weight_map[spec.name] = name;
    }
  }
  const std::string index_path = join_path(folder, kSafetensorsIndex);
  if (shards.size() == 1) {
    remove_all(index_path);  // a stale one would hide the new file
    return;
  }
  Json index = Json::object();
  index["metadata"] = {{"total_size", total}};
  index["weight_map"] = std::move(weight_map);
  write_file_atomic(index_path, json_pretty(index) + "\n");
}

}  // namespace isotone
