// GGUF to a folder in the Hugging Face layout that transformers loads.
#pragma once

#include <functional>
#include <string>

#include "formats/model_files.h"

namespace isotone {

struct ConvertOptions {
  DType dtype = DType::f32;  ///< f32, bf16 or f16
  std::uint64_t max_shard_bytes = std::uint64_t{5} << 30;
  /// Gives the text of tokenizer.json; the text library makes it. Without it no tokenizer.json is written.
  std::function<std::string(const GgufTokenizer&)> tokenizer_json;
  /// Called before each tensor with how many are done, of how many.
  std::function<void(std::size_t done, std::size_t total)> progress;
};

/// Writes config.json, safetensors, tokenizer.json, tokenizer_config.json (special tokens and chat template),
/// chat_template.jinja and generation_config.json into `out_folder`, which appears only when everything is written and
/// must not exist or be empty before. One tensor at a time is in memory. Quantised weights are dequantised in f32 and
/// rounded once to `dtype`. Throws Error for models whose meaning would change (scaled rotary positions).
void convert_gguf_to_hf(const std::string& gguf_path, const std::string& out_folder,
                        const ConvertOptions& options = {});

/// tokenizer_config.json of a GGUF's tokenizer data.
std::string tokenizer_config_json_of(const GgufTokenizer& tokenizer, std::int64_t max_position);

}  // namespace isotone
