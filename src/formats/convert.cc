// Conversion is streaming: one dequantised tensor at a time, written into a folder aside.
#include "formats/convert.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "formats/dequantise.h"
#include "formats/json_text.h"
#include "formats/sharded.h"

namespace isotone {
namespace {

std::string generation_config_json(const ModelConfig& c) {
  Json json = Json::object();
  json["_from_model_config"] = true;
  if (c.bos_id) {
    json["bos_token_id"] = *c.bos_id;
  }
  if (!c.eos_ids.empty()) {
    json["eos_token_id"] = c.eos_ids.size() == 1 ? Json(c.eos_ids[0]) : Json(c.eos_ids);
  }
  if (c.pad_id) {
    json["pad_token_id"] = *c.pad_id;
  }
  return json_pretty(json) + "\n";
}

}  // namespace

std::string tokenizer_config_json_of(const GgufTokenizer& t, std::int64_t max_position) {
  Json json = Json::object();
  json["tokenizer_class"] = "PreTrainedTokenizerFast";
  const auto special = [&](const char* key, const std::optional<std::int64_t>& id) {
    if (id) {
      json[key] = t.tokens.at(static_cast<std::size_t>(*id));
    }
  };
  special("bos_token", t.bos_id);
  special("eos_token", t.eos_id);
  special("unk_token", t.unk_id);
  special("pad_token", t.pad_id);
  json["add_bos_token"] = t.add_bos.value_or(false);
  json["add_eos_token"] = t.add_eos.value_or(false);
  json["clean_up_tokenization_spaces"] = false;
  json["model_max_length"] = max_position;
  if (!t.chat_template.empty()) {
    json["chat_template"] = t.chat_template;
  }
  return json_pretty(json) + "\n";
}

void convert_gguf_to_hf(const std::string& gguf_path, const std::string& out_folder, const ConvertOptions& options) {
  require(is_float(options.dtype), "cannot convert to {}: choose f32, bf16 or f16", dtype_name(options.dtype));
  require(!path_exists(out_folder) || (is_folder(out_folder) && list_folder(out_folder).empty()),
          "{}: already there; name a new or empty folder", out_folder);
  const std::unique_ptr<ModelFiles> model = open_model(gguf_path);
  require(model->is_gguf(), "{}: is not a .gguf file", gguf_path);
  require(model->config().rope_scaling.empty(),
          "{}: scales its rotary positions ({}), which cannot be told in config.json without loss", gguf_path,
          model->config().rope_scaling);

  std::vector<TensorSpec> specs;
  for (const std::string& name : model->tensor_names()) {
    TensorSpec spec = model->tensor(name);
    spec.dtype = options.dtype;
    specs.push_back(std::move(spec));
  }
  AsideFolder folder(out_folder);
  std::size_t done = 0;
  std::vector<std::byte> encoded;
  write_safetensors_folder(
      folder.aside(), specs,
      [&](const TensorSpec& spec) -> std::span<const std::byte> {
        if (options.progress) {
          options.progress(done++, specs.size());
        }
        encoded = encode(options.dtype, dequantise(model->tensor(spec.name)));
        return encoded;
      },
      {{"format", "pt"}}, options.max_shard_bytes);

  const auto write = [&](std::string_view name, const std::string& text) {
    write_file_atomic(join_path(folder.aside(), name), text);
  };
  ModelConfig config = model->config();
  config.dtype = options.dtype;
  write("config.json", model_config_json(config));
  write("generation_config.json", generation_config_json(config));
  const GgufTokenizer& tokenizer = *model->gguf_tokenizer();
  write("tokenizer_config.json", tokenizer_config_json_of(tokenizer, config.max_position));
  if (!tokenizer.chat_template.empty()) {
    write("chat_template.jinja", tokenizer.chat_template);
  }
  if (options.tokenizer_json) {
    write("tokenizer.json", options.tokenizer_json(tokenizer));
  }
  folder.commit();
}

}  // namespace isotone
