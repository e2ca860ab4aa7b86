// What is in a checkpoint, and whether it is whole: `isotone checkpoint`. Reads what a stranger may have written.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "formats/tensor_view.h"
#include "train/manifest.h"

namespace isotone::train {

struct CheckpointFault {
  std::string file;    ///< path
  std::string tensor;  ///< empty: the file as a whole
  std::string what;
  /// "model.safetensors: tensor 'x' ...", ready to print.
  [[nodiscard]] std::string text() const;
};

struct Examined {
  std::string folder;
  std::int64_t step = -1;              ///< -1: the manifest cannot be read
  std::size_t tensors = 0, files = 0;  ///< whose checksums were compared; files that are no tensors
  std::uint64_t bytes = 0;             ///< of both
  std::vector<CheckpointFault> faults;
  std::vector<std::string> unknown;  ///< files that the manifest does not name: nobody can say whether they are whole
};

/// Called with bytes done, of all.
using BytesProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

/// Compares every tensor and every file of a checkpoint with its manifest, its tensors with what its config.json needs,
/// and the moments with the parameters. Each byte is read once, on all threads. Never throws for what is in the folder.
Examined examine_checkpoint(const std::string& folder, const BytesProgress& progress = {});

/// The checkpoint that `path` is, or those of the out folder that it is, newest first. Throws Error where it is
/// neither.
std::vector<std::string> checkpoints_at(const std::string& path);

struct ListedTensor : TensorSpec {
  std::string file, sha256;
};

/// What a checkpoint says of itself; only headers are read.
struct Summary {
  std::string folder;
  Manifest manifest;
  std::string architecture;           ///< of its config.json
  std::vector<ListedTensor> tensors;  ///< in the order of their data
  std::uint64_t parameters = 0, tensor_bytes = 0, file_bytes = 0;
};
Summary summarise_checkpoint(const std::string& folder);

inline constexpr const char* kWeightsFile = "model.safetensors";
inline constexpr const char* kOptimiserFile = "optimiser.safetensors";

}  // namespace isotone::train
