#include "train/export_model.h"

#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "formats/dequantise.h"
#include "formats/model_config.h"
#include "formats/safetensors.h"
#include "train/examine.h"

namespace isotone::train {

void export_model(const std::string& checkpoint, const std::string& out_folder, const ExportOptions& options) {
  require(is_float(options.dtype), "cannot convert to {}: choose f32, bf16 or f16", dtype_name(options.dtype));
  require(!path_exists(out_folder) || (is_folder(out_folder) && list_folder(out_folder).empty()),
          "{}: already there; name a new or empty folder", out_folder);
  const Manifest manifest = read_manifest(checkpoint);
  const Safetensors weights(join_path(checkpoint, kWeightsFile));
  std::vector<TensorSpec> specs;
  for (const SafetensorsEntry& e : weights.entries()) {
    require(manifest.tensors.contains(e.name), "{}: the manifest has no checksum of '{}'", weights.path(), e.name);
    require(e.dtype == DType::f32, "{}: tensor '{}' is {}, not F32", weights.path(), e.name, e.dtype_text);
    specs.push_back({e.name, options.dtype, e.shape});
  }
  AsideFolder folder(out_folder);
  bool has_config = false;
  for (const auto& [name, hash] : manifest.files) {
    require(name.find('/') == std::string::npos, "{}: the manifest names a file outside the folder: {}", checkpoint,
            name);
    const std::string from = join_path(checkpoint, name), text = read_text_file(from);
    require(sha256_hex(text) == hash, "{}: is damaged: its checksum differs from the manifest's", from);
    if (name == "config.json") {
      has_config = true;
      ModelConfig config = parse_model_config(text, from);
      config.dtype = options.dtype;
      write_file_atomic(join_path(folder.aside(), name), model_config_json(config));
    } else {
      write_file_atomic(join_path(folder.aside(), name), text);
    }
  }
  require(has_config,
          "{}: the manifest names no config.json: an older program wrote it; load and save it once with "
          "isotone train",
          checkpoint);
  std::size_t done = 0;
  std::vector<std::byte> encoded;
  write_safetensors_folder(
      folder.aside(), specs,
      [&](const TensorSpec& spec) -> std::span<const std::byte> {
        if (options.progress) {
          options.progress(done++, specs.size());
        }
        const TensorView t = weights.tensor(spec.name);
        require(sha256_hex(t.data) == manifest.tensors.at(spec.name),
                "{}: tensor '{}' is damaged: its checksum differs from the manifest's", weights.path(), spec.name);
        if (options.dtype == DType::f32) {
          return t.data;  // mapped: as long as `weights`
        }
        encoded = encode(options.dtype, dequantise(t));
        return encoded;
      },
      {{"format", "pt"}}, options.max_shard_bytes);
  folder.commit();
}

}  // namespace isotone::train
