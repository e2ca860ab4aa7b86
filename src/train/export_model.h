// A checkpoint's model as a folder in the Hugging Face layout.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/dtype.h"
#include "formats/sharded.h"

namespace isotone::train {

struct ExportOptions {
  DType dtype = DType::f32;  ///< f32, bf16 or f16: rounded once, to nearest, ties to even
  std::uint64_t max_shard_bytes = kDefaultShardBytes;
  /// Called before each tensor with how many are done, of how many.
  std::function<void(std::size_t done, std::size_t total)> progress;
};

/// Writes config.json, the tokenizer's files and the weights as safetensors into `out_folder`, which appears only when
/// everything is written and must not exist or be empty before. What training alone needs (moments, manifest) stays
/// behind. One tensor at a time is in memory, and each is compared with its checksum on the way. Throws Error naming
/// the file or tensor that is damaged.
void export_model(const std::string& checkpoint, const std::string& out_folder, const ExportOptions& options = {});

}  // namespace isotone::train
