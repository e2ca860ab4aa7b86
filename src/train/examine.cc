#include "train/examine.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/parallel.h"
#include "formats/model_config.h"
#include "formats/safetensors.h"
#include "models/model.h"
#include "train/checkpoint.h"

namespace isotone::train {
namespace {

/// Hashes are taken of this much before progress is told.
constexpr std::uint64_t kBytesAtOnce = std::uint64_t{1} << 30;

class Examiner {
 public:
  Examiner(std::string folder, const BytesProgress& progress) : progress_(progress) { out_.folder = std::move(folder); }

  Examined run() {
    try {
      manifest_ = read_manifest(out_.folder);
    } catch (const Error& e) {
      fault(kManifestFile, "", e.what());
      return std::move(out_);
    }
    out_.step = manifest_.step;
    compare_text_files();
    for (const char* file : {kWeightsFile, kOptimiserFile}) {
      open(file);
    }
    if (files_.size() == 2) {
      compare_names();
      compare_with_model();
      compare_moments();
    }
    compare_tensors();
    list_unknown();
    return std::move(out_);
  }

 private:
  [[nodiscard]] std::string path(const std::string& file) const { return join_path(out_.folder, file); }

  void fault(const std::string& file, const std::string& tensor, std::string what) {
    const std::string front = path(file) + ": ";  // readers put it in front of their messages already
    if (what.starts_with(front)) {
      what = what.substr(front.size());
    }
    out_.faults.push_back({path(file), tensor, std::move(what)});
  }

  void compare_text_files() {
    for (const auto& [name, hash] : manifest_.files) {
      try {
        require(name.find('/') == std::string::npos, "the manifest names a file outside the folder");
        out_.bytes += file_size(path(name));
        ++out_.files;
        require(sha256_of_file(path(name)) == hash, "its checksum differs from the manifest's");
      } catch (const Error& e) {
        fault(name, "", e.what());
      }
    }
  }

  void open(const char* file) {
    try {
      files_.emplace(file, Safetensors(path(file)));
    } catch (const Error& e) {
      fault(file, "", e.what());
    }
  }

  /// The manifest's tensors and the files' are the same.
  void compare_names() {
    std::set<std::string> there;
    for (const auto& [file, tensors] : files_) {
      for (const SafetensorsEntry& e : tensors.entries()) {
        if (!there.insert(e.name).second) {
          fault(file, e.name, "stands in both files");
        }
        if (!manifest_.tensors.contains(e.name)) {
          fault(file, e.name, "the manifest has no checksum of it");
        }
      }
    }
    for (const auto& [name, hash] : manifest_.tensors) {
      if (!there.contains(name)) {
        fault(name.starts_with("m.") || name.starts_with("v.") ? kOptimiserFile : kWeightsFile, name,
              "is missing, though the manifest has its checksum");
      }
    }
  }

  void expect(const char* file, const std::string& name, const std::vector<std::int64_t>& shape) {
    const SafetensorsEntry* e = files_.at(file).find(name);
    if (e == nullptr) {
      if (!manifest_.tensors.contains(name)) {  // else it has been said
        fault(file, name, "is missing");
      }
    } else if (e->dtype != DType::f32 || e->shape != shape) {
      fault(file, name, fmt::format("is {}{}, not F32{}", e->dtype_text, shape_text(e->shape), shape_text(shape)));
    }
  }

  void compare_with_model() {
    try {
      const std::string config = path("config.json");
      const ModelConfig c = parse_model_config(read_text_file(config, std::size_t{16} << 20), config);
      for (const nn::ParameterSpec& s : models::architecture_of(c).parameters(c)) {
        expect(kWeightsFile, s.name, s.shape);
      }
    } catch (const Error& e) {
      fault("config.json", "", e.what());
    }
  }

  void compare_moments() {
    for (const SafetensorsEntry& e : files_.at(kWeightsFile).entries()) {
      expect(kOptimiserFile, "m." + e.name, e.shape);
      expect(kOptimiserFile, "v." + e.name, e.shape);
    }
  }

  struct Work {
    const char* file;
    const SafetensorsEntry* entry;
    std::span<const std::byte> data;
    const std::string* expected;
    bool same = false;
  };

  void compare_tensors() {
    std::vector<Work> all;
    std::uint64_t total = out_.bytes;
    for (const auto& [file, tensors] : files_) {
      for (const SafetensorsEntry& e : tensors.entries()) {
        if (const auto hash = manifest_.tensors.find(e.name); hash != manifest_.tensors.end()) {
          all.push_back({file, &e, tensors.data(e), &hash->second});
          total += e.bytes();
        }
      }
    }
    for (std::size_t at = 0; at < all.size();) {
      std::size_t end = at;
      for (std::uint64_t bytes = 0; end < all.size() && bytes < kBytesAtOnce; ++end) {
        bytes += all[end].data.size();
      }
      parallel_for(static_cast<std::int64_t>(end - at), 1, [&](std::int64_t first, std::int64_t last, int) {
        for (Work& w :
             std::span(all).subspan(at + static_cast<std::size_t>(first), static_cast<std::size_t>(last - first))) {
          w.same = sha256_hex(w.data) == *w.expected;
        }
      });
      for (; at < end; ++at) {
        ++out_.tensors;
        out_.bytes += all[at].data.size();
        if (!all[at].same) {
          fault(all[at].file, all[at].entry->name, "is damaged: its checksum differs from the manifest's");
        }
      }
      if (progress_) {
        progress_(out_.bytes, total);
      }
    }
  }

  void list_unknown() {
    for (const std::string& name : list_folder(out_.folder)) {
      if (name != kManifestFile && name != kWeightsFile && name != kOptimiserFile && !manifest_.files.contains(name)) {
        out_.unknown.push_back(path(name));
      }
    }
  }

  const BytesProgress& progress_;
  Examined out_;
  Manifest manifest_;
  std::map<const char*, Safetensors> files_;  // by kWeightsFile, kOptimiserFile
};

bool is_checkpoint(const std::string& path) {
  return path_exists(join_path(path, kManifestFile)) || path_exists(join_path(path, kWeightsFile)) ||
         path_exists(join_path(path, kOptimiserFile));
}

}  // namespace

std::string CheckpointFault::text() const {
  return tensor.empty() ? fmt::format("{}: {}", file, what) : fmt::format("{}: tensor '{}' {}", file, tensor, what);
}

Examined examine_checkpoint(const std::string& folder, const BytesProgress& progress) {
  return Examiner(folder, progress).run();
}

std::vector<std::string> checkpoints_at(const std::string& path) {
  require(path_exists(path), "{}: there is no such folder", path);
  require(is_folder(path), "{}: is a file; name a checkpoint (a folder step-N) or the out folder of a run", path);
  if (is_checkpoint(path)) {
    return {path};
  }
  std::vector<std::string> all = list_checkpoints(path);
  require(!all.empty(), "{}: is no checkpoint and holds none; name a folder step-N or the out folder of a run", path);
  return all;
}

Summary summarise_checkpoint(const std::string& folder) {
  Summary out;
  out.folder = folder;
  out.manifest = read_manifest(folder);
  const std::string config = join_path(folder, "config.json");
  out.architecture = parse_model_config(read_text_file(config, std::size_t{16} << 20), config).architecture;
  for (const char* name : {kWeightsFile, kOptimiserFile}) {
    const Safetensors file(join_path(folder, name));
    for (const SafetensorsEntry& e : file.entries()) {
      const auto hash = out.manifest.tensors.find(e.name);
      require(e.dtype.has_value(), "{}: tensor '{}' is {}, which no checkpoint holds", file.path(), e.name,
              e.dtype_text);
      out.tensors.push_back(
          {{e.name, *e.dtype, e.shape}, name, hash == out.manifest.tensors.end() ? "" : hash->second});
      out.tensor_bytes += e.bytes();
      if (name == kWeightsFile) {
        out.parameters += static_cast<std::uint64_t>(checked_elements(e.shape, e.name));
      }
    }
  }
  for (const std::string& name : list_folder(folder)) {
    if (!is_folder(join_path(folder, name))) {
      out.file_bytes += file_size(join_path(folder, name));
    }
  }
  return out;
}

}  // namespace isotone::train
