#include "train/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/numerics.h"
#include "base/tree.h"
#include "formats/convert.h"
#include "formats/safetensors.h"

namespace isotone::train {

namespace {

using nlohmann::json;

/// The tensor's own memory where the host can see it, else a copy kept by the view.
TensorView view_of(const std::string& name, const Tensor& t) {
  TensorView view;
  view.name = name;
  view.dtype = t.dtype();
  view.shape = t.shape();
  if (const void* host = t.host(); host != nullptr) {
    view.data = {static_cast<const std::byte*>(host), t.type().bytes()};
    view.owner = t.storage();
  } else {
    auto bytes = std::make_shared<std::vector<std::byte>>(t.to_bytes());
    view.data = *bytes;
    view.owner = bytes;
  }
  return view;
}

json hashes_of(const std::vector<TensorView>& tensors) {
  json out = json::object();
  for (const TensorView& t : tensors) {
    out[t.name] = sha256_hex(t.data);
  }
  return out;
}

Tensor checked_tensor(const Safetensors& file, const std::string& name, const Shape& shape, const json& hashes,
                      const std::string& path) {
  const TensorView t = file.tensor(name);
  require(t.dtype == DType::f32 && t.shape == shape, "{}: tensor '{}' is {}{}, not f32{}", path, name,
          dtype_name(t.dtype), ir::to_string(t.shape), ir::to_string(shape));
  require(hashes.contains(name) && hashes[name].is_string(), "{}: the manifest has no checksum of '{}'", path, name);
  require(sha256_hex(t.data) == hashes[name].get<std::string>(),
          "{}: tensor '{}' is damaged: its checksum differs from the manifest's", path, name);
  return Tensor::from_bytes(t.data.data(), {t.dtype, t.shape});
}

}  // namespace

ModelText model_text_of(const ModelFiles& files, const text::Tokenizer& tokenizer) {
  ModelText out;
  ModelConfig config = files.config();
  config.dtype = DType::f32;
  out.config_json = model_config_json(config);
  out.generation_json = config.generation_json;
  out.tokenizer_json = files.is_gguf() ? tokenizer.to_json() : files.tokenizer_json();
  out.tokenizer_config_json = files.is_gguf() ? tokenizer_config_json_of(*files.gguf_tokenizer(), config.max_position)
                                              : files.tokenizer_config_json();
  if (!files.is_gguf() && !files.chat_template().empty()) {
    // The template may have come from a file of its own: keep it where every reader looks.
    json c = out.tokenizer_config_json.empty() ? json::object() : json::parse(out.tokenizer_config_json);
    c["chat_template"] = files.chat_template();
    out.tokenizer_config_json = c.dump(2);
  }
  return out;
}

std::string checkpoint_name(std::int64_t step) {
  return fmt::format("step-{:06d}", step);
}

std::vector<std::string> list_checkpoints(const std::string& out) {
  std::vector<std::pair<std::int64_t, std::string>> found;
  if (!path_exists(out)) {
    return {};
  }
  for (const std::string& name : list_folder(out)) {
    if (name.starts_with("step-") && !is_aside_name(name) &&
        name.find_first_not_of("0123456789", 5) == std::string::npos && name.size() > 5 && name.size() < 20) {
      found.emplace_back(std::stoll(name.substr(5)), join_path(out, name));
    }
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<std::string> paths;
  for (auto& [step, path] : found) {
    paths.push_back(std::move(path));
  }
  return paths;
}

void save_checkpoint(const std::string& folder, const TrainState& state, const ModelText& text,
                     const std::string& fingerprint) {
  AsideFolder aside(folder);
  std::vector<TensorView> weights, optimiser;
  for (const auto& [name, t] : state.parameters.all()) {
    weights.push_back(view_of(name, t));
    optimiser.push_back(view_of("m." + name, state.m.at(name)));
    optimiser.push_back(view_of("v." + name, state.v.at(name)));
  }
  save_safetensors(join_path(aside.aside(), "model.safetensors"), weights, {{"format", "pt"}});
  save_safetensors(join_path(aside.aside(), "optimiser.safetensors"), optimiser);
  write_file_atomic(join_path(aside.aside(), "config.json"), text.config_json);
  write_file_atomic(join_path(aside.aside(), "tokenizer.json"), text.tokenizer_json);
  if (!text.tokenizer_config_json.empty()) {
    write_file_atomic(join_path(aside.aside(), "tokenizer_config.json"), text.tokenizer_config_json);
  }
  if (!text.generation_json.empty()) {
    write_file_atomic(join_path(aside.aside(), "generation_config.json"), text.generation_json);
  }
  json manifest;
  manifest["format"] = 1;
  manifest["numerics"] = kNumericsVersion;
  manifest["profile"] = numerics_profile_name(numerics_profile());
  manifest["step"] = state.step;
  manifest["tokens"] = state.tokens;
  manifest["recipe"] = fingerprint;
  manifest["sha256"] = hashes_of(weights);
  manifest["sha256"].update(hashes_of(optimiser));
  write_file_atomic(join_path(aside.aside(), "manifest.json"), manifest.dump(1));
  aside.commit();
}

TrainState load_checkpoint(const std::string& folder, const std::vector<nn::ParameterSpec>& specs,
                           const std::string& fingerprint) {
  const std::string path = join_path(folder, "manifest.json");
  require(path_exists(folder), "{}: there is no such checkpoint", folder);
  require(path_exists(path), "{}: there is no manifest.json, so this is no complete checkpoint", folder);
  json manifest;
  TrainState state;
  std::string recipe, profile;
  int numerics = 0;
  try {
    manifest = json::parse(read_text_file(path, 256 << 20));
    state.step = manifest.at("step").get<std::int64_t>();
    state.tokens = manifest.at("tokens").get<std::int64_t>();
    recipe = manifest.at("recipe").get<std::string>();
    numerics = manifest.at("numerics").get<int>();
    profile = manifest.value("profile", "pairdot-1");  // before there was another one, none was named
    require(manifest.at("sha256").is_object() && state.step >= 0, "the manifest lacks its checksums");
  } catch (const json::exception& e) {
    fail("{}: the manifest is damaged: {}", path, e.what());
  }
  const auto same_run = [&](bool same, const std::string& what) {
    if (!same) {
      throw OtherRun(fmt::format("{}: {}", path, what));
    }
  };
  same_run(numerics == kNumericsVersion,
           fmt::format("written under version {} of the numerics contract, this program keeps version {}", numerics,
                       kNumericsVersion));
  const std::string_view mine = numerics_profile_name(numerics_profile());
  same_run(profile == mine,
           fmt::format(
               "made under the numerics profile {}, this run is under {}; set train.numerics = \"{}\" or --numerics {}",
               profile, mine, profile, profile));
  same_run(recipe == fingerprint,
           "the checkpoint was made by another recipe; use that one, another out folder, or --resume never");
  const Safetensors weights(join_path(folder, "model.safetensors")),
      optimiser(join_path(folder, "optimiser.safetensors"));
  const json& hashes = manifest["sha256"];
  for (const nn::ParameterSpec& s : specs) {
    state.parameters.set(s.name, checked_tensor(weights, s.name, s.shape, hashes, weights.path()));
    state.m.set(s.name, checked_tensor(optimiser, "m." + s.name, s.shape, hashes, optimiser.path()));
    state.v.set(s.name, checked_tensor(optimiser, "v." + s.name, s.shape, hashes, optimiser.path()));
  }
  return state;
}

}  // namespace isotone::train
