// A model ready to serve: weights, tokenizer, chat template and what ends an answer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "serve/language_model.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace isotone::serve {

struct LoadOptions {
  /// Compute dtype: "f32", "bf16", or "native" (as the file stores them; quantised weights stay packed).
  std::string dtype = "native";
  /// Threads for kernels; 0 leaves the process's setting.
  int threads = 0;
  /// Longest sequence to make room for; 0 means what the model was trained for.
  std::int64_t context_length = 0;
};

struct LoadedModel {
  std::unique_ptr<LanguageModel> model;
  text::Tokenizer tokenizer;
  text::ChatTemplate chat;
  /// The file's or folder's name without directories and ending; `model` of API answers.
  std::string name;
  /// Ids that end an answer (end of text, end of turn).
  std::vector<std::int32_t> stop_ids;
  double load_seconds = 0.0;
};

/// Loads a Hugging Face folder or a .gguf file. Throws Error naming the path and what is wrong with it.
std::unique_ptr<LoadedModel> load_model(const std::string& path, const LoadOptions& options);

}  // namespace isotone::serve
