// A model's files as one uniform thing: configuration, tensors under Hugging Face names, tokenizer data.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf.h"
#include "formats/model_config.h"
#include "formats/tensor_view.h"

namespace isotone {

/// Tokenizer data as a GGUF file holds it; the text library makes a tokenizer of it.
struct GgufTokenizer {
  std::string model;                ///< "gpt2" (byte-level BPE), "llama" (SentencePiece), ...
  std::string pre;                  ///< name of the pre-tokenizer: "smollm"
  std::vector<std::string> tokens;  ///< by id
  std::vector<float> scores;        ///< by id, or empty
  std::vector<std::int32_t>
      types;  ///< by id, or empty: 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte
  std::vector<std::string> merges;  ///< "a b", best first
  std::optional<std::int64_t> bos_id, eos_id, unk_id, pad_id;
  std::optional<bool> add_bos, add_eos, add_space_prefix;
  std::string chat_template;  ///< Jinja text; empty where there is none
};

/// An opened model. Tensors are views into mapped files (kept alive by the views themselves) and may be asked for from
/// several threads.
class ModelFiles {
 public:
  virtual ~ModelFiles() = default;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const ModelConfig& config() const { return config_; }
  [[nodiscard]] bool is_gguf() const { return gguf_tokenizer_.has_value(); }
  /// All tensors under Hugging Face names ("model.layers.0.self_attn.q_proj.weight"), sorted.
  [[nodiscard]] virtual std::vector<std::string> tensor_names() const = 0;
  [[nodiscard]] virtual bool contains(std::string_view name) const = 0;
  /// Rows in Hugging Face order: for the q and k projections of a GGUF of the Llama architecture this is a new copy.
  /// Throws Error where the tensor is missing or of a dtype we cannot compute with.
  [[nodiscard]] virtual TensorView tensor(std::string_view name) const = 0;
  /// Asks the system to read the weights ahead.
  virtual void prefetch() const = 0;

  /// Of a folder: texts of tokenizer.json and tokenizer_config.json, empty where there are none.
  [[nodiscard]] const std::string& tokenizer_json() const { return tokenizer_json_; }
  [[nodiscard]] const std::string& tokenizer_config_json() const { return tokenizer_config_json_; }
  /// Of a .gguf file.
  [[nodiscard]] const std::optional<GgufTokenizer>& gguf_tokenizer() const { return gguf_tokenizer_; }
  /// Jinja text of the chat template: from chat_template.jinja, tokenizer_config.json (the one named "default" of
  /// several), chat_template.json or GGUF metadata; empty where there is none.
  [[nodiscard]] const std::string& chat_template() const { return chat_template_; }

 protected:
  std::string path_;
  ModelConfig config_;
  std::string tokenizer_json_, tokenizer_config_json_, chat_template_;
  std::optional<GgufTokenizer> gguf_tokenizer_;
};

/// Opens a folder in the Hugging Face layout or a .gguf file. Reads headers and configuration only; weights are mapped.
std::unique_ptr<ModelFiles> open_model(const std::string& path);

GgufTokenizer tokenizer_of_gguf(const Gguf& gguf);

/// The Hugging Face name of a GGUF tensor of the Llama family; empty for one without a counterpart.
std::string hugging_face_name(std::string_view gguf_name);

}  // namespace isotone
