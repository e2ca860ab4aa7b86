#include "train/checkpoint.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/numerics.h"
#include "base/tree.h"
#include "dist/agree.h"
#include "formats/convert.h"

namespace isotone::train {

namespace {

using nlohmann::json;

/// The tensor's own memory where the host can see it, else a copy kept by the view.
TensorView view_of(const Tensor& t) {
  TensorView view;
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

/// The part of a parameter's memory that is one tensor of the checkpoint.
TensorView part_of(const TensorView& whole, const std::string& prefix, const nn::StoredTensor& stored) {
  TensorView part = whole;
  part.name = prefix + stored.name;
  part.shape = stored.shape;
  part.data = whole.data.subspan(storage_bytes(whole.dtype, stored.first), part.bytes());
  return part;
}

/// The text files of a checkpoint that has them.
std::vector<std::pair<const char*, const std::string*>> files_of(const ModelText& text) {
  std::vector<std::pair<const char*, const std::string*>> all{{"config.json", &text.config_json},
                                                              {"tokenizer.json", &text.tokenizer_json},
                                                              {"tokenizer_config.json", &text.tokenizer_config_json},
                                                              {"generation_config.json", &text.generation_json}};
  std::erase_if(all, [](const auto& file) { return file.second->empty(); });
  return all;
}

/// A tensor of the file, its checksum compared where `verify`.
TensorView checked_view(const Safetensors& file, const std::string& name, const Shape& shape, const Manifest& manifest,
                        bool verify) {
  const std::string& path = file.path();
  TensorView t = file.tensor(name);
  require(t.dtype == DType::f32 && t.shape == shape, "{}: tensor '{}' is {}{}, not f32{}", path, name,
          dtype_name(t.dtype), ir::to_string(t.shape), ir::to_string(shape));
  const auto hash = manifest.tensors.find(name);
  require(hash != manifest.tensors.end(), "{}: the manifest has no checksum of '{}'", path, name);
  require(!verify || sha256_hex(t.data) == hash->second,
          "{}: tensor '{}' is damaged: its checksum differs from the manifest's", path, name);
  return t;
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

CheckpointWriter::CheckpointWriter(std::string folder, const TrainState& state, const ModelText& text, RunRecipe recipe,
                                   const Shards& shards)
    : folder_(std::move(folder)), ranks_(shards.ranks()) {
  manifest_.numerics = kNumericsVersion;
  manifest_.profile = numerics_profile_name(numerics_profile());
  manifest_.step = state.step;
  manifest_.tokens = state.tokens;
  manifest_.recipe = std::move(recipe.fingerprint);
  manifest_.fields = std::move(recipe.fields);
  manifest_.contents = std::move(recipe.contents);
  manifest_.earlier = state.earlier;
  for (const auto& [name, content] : files_of(text)) {
    manifest_.files[name] = sha256_hex(*content);
  }
  const bool first = ranks_.rank() == 0;
  dist::together(ranks_, [&] {
    if (first) {
      aside_.emplace(folder_);
    }
  });
  aside_path_ = dist::text_of_rank_0(ranks_, first ? aside_->aside() : "");
  std::vector<TensorSpec> weights, optimiser;
  for (const nn::ParameterSpec& s : shards.specs()) {
    for (const nn::StoredTensor& t : nn::stored_tensors(s)) {
      weights.push_back({t.name, DType::f32, t.shape});
      optimiser.push_back({"m." + t.name, DType::f32, t.shape});
      optimiser.push_back({"v." + t.name, DType::f32, t.shape});
    }
  }
  const std::string weights_path = join_path(aside_path_, "model.safetensors"),
                    optimiser_path = join_path(aside_path_, "optimiser.safetensors");
  std::vector<Part> parts;
  parts.push_back({weights_path, SafetensorsPlan(weights_path, weights, {{"format", "pt"}}), {}});
  parts.push_back({optimiser_path, SafetensorsPlan(optimiser_path, optimiser), {}});
  const auto add = [&](Part& part, const std::string& prefix, const nn::Parameters& owned) {
    for (std::size_t i = 0; i < shards.specs().size(); ++i) {
      if (const nn::ParameterSpec& s = shards.specs()[i]; shards.owns(i)) {
        const TensorView whole = view_of(owned.at(s.name));
        for (const nn::StoredTensor& t : nn::stored_tensors(s)) {
          part.mine.push_back(part_of(whole, prefix, t));
        }
      }
    }
  };
  add(parts[0], "", shards.owned_parameters(state.parameters));
  add(parts[1], "m.", shards.owned_moments(state.m));
  add(parts[1], "v.", shards.owned_moments(state.v));
  writing_ = std::async(std::launch::async, [parts = std::move(parts), first, aside = aside_path_, text] {
    return write(parts, first, aside, text);
  });
}

CheckpointWriter::Hashes CheckpointWriter::write(const std::vector<Part>& parts, bool first, const std::string& aside,
                                                 const ModelText& text) {
  Hashes hashes;
  for (const Part& part : parts) {
    SharedFile file(part.path);
    if (first) {
      file.write_at(0, std::as_bytes(std::span(part.plan.head)));
    }
    std::map<std::string, std::uint64_t> offsets;
    for (std::size_t i = 0; i < part.plan.tensors.size(); ++i) {
      offsets[part.plan.tensors[i].name] = part.plan.offsets[i];
    }
    for (const TensorView& t : part.mine) {
      hashes[t.name] = sha256_hex(t.data);
      file.write_at(offsets.at(t.name), t.data);
    }
    file.sync();
  }
  if (!first) {
    return hashes;
  }
  for (const auto& [name, content] : files_of(text)) {
    write_file_atomic(join_path(aside, name), *content);
  }
  return hashes;
}

bool CheckpointWriter::written() const {
  return writing_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

void CheckpointWriter::commit() {
  Hashes mine;
  dist::together(ranks_, [&] { mine = writing_.get(); });
  const std::vector<std::string> all = dist::texts_of_ranks(ranks_, json(mine).dump());
  dist::together(ranks_, [&] {
    if (ranks_.rank() != 0) {
      return;
    }
    for (const std::string& hashes : all) {
      manifest_.tensors.merge(json::parse(hashes).get<Hashes>());
    }
    write_file_atomic(join_path(aside_path_, kManifestFile), manifest_json(manifest_));
    aside_->commit();
  });
}

void save_checkpoint(const std::string& folder, const TrainState& state, const ModelText& text, const RunRecipe& recipe,
                     const Shards& shards) {
  CheckpointWriter(folder, state, text, recipe, shards).commit();
}

namespace {

/// Whether both read the same tokens, as far as both say. A tokenizer written down another way may give equal ones.
bool same_tokens(RecipeFields there, RecipeFields here) {
  if (there.empty() || here.empty()) {
    return true;
  }
  there.erase("data.tokenizer");
  here.erase("data.tokenizer");
  return there == here;
}

/// Whether the run goes on from another recipe's checkpoint, or from other data. Throws OtherRun unless that is
/// accepted.
bool of_other_recipe(const std::string& path, const Manifest& m, const RunRecipe& recipe) {
  constexpr std::size_t kShort = 16;  // digits of a fingerprint that tell it from others
  const bool same_recipe = m.recipe == recipe.fingerprint;
  if (same_recipe && same_tokens(m.contents, recipe.contents)) {
    return false;
  }
  if (!recipe.accepted.empty() && m.recipe.starts_with(recipe.accepted)) {
    return true;
  }
  const std::string accept = fmt::format("--accept-recipe {}", m.recipe.substr(0, kShort));
  if (same_recipe) {
    throw OtherRun(
        fmt::format("{}: the recipe is this one, but what its data files hold has changed: {}; bring the old "
                    "files back, use another out folder, --resume never, or go on with the new ones with {}",
                    path, recipe_differences(m.contents, recipe.contents), accept));
  }
  const std::string keys =
      m.fields.empty() ? "an older program wrote it and kept no keys" : recipe_differences(m.fields, recipe.fields);
  throw OtherRun(
      fmt::format("{}: the checkpoint was made by another recipe ({}): {}; use that one, another out folder, --resume "
                  "never, or go on under this recipe with {}",
                  path, m.recipe.substr(0, kShort), keys, accept));
}

TrainState load_part(const std::string& folder, const RunRecipe& recipe, const Shards& shards) {
  const Manifest manifest = read_manifest(folder);
  const std::string path = join_path(folder, kManifestFile);
  const auto same_run = [&](bool same, const std::string& what) {
    if (!same) {
      throw OtherRun(fmt::format("{}: {}", path, what));
    }
  };
  same_run(manifest.numerics == kNumericsVersion,
           fmt::format("written under version {} of the numerics contract, this program keeps version {}",
                       manifest.numerics, kNumericsVersion));
  const std::string_view mine = numerics_profile_name(numerics_profile());
  same_run(manifest.profile == mine,
           fmt::format(
               "made under the numerics profile {}, this run is under {}; set train.numerics = \"{}\" or --numerics {}",
               manifest.profile, mine, manifest.profile, manifest.profile));
  TrainState state;
  state.step = manifest.step;
  state.tokens = manifest.tokens;
  state.earlier = manifest.earlier;
  if (of_other_recipe(path, manifest, recipe)) {
    state.earlier.push_back({manifest.recipe, manifest.step});
  }
  const Safetensors weights(join_path(folder, "model.safetensors")),
      optimiser(join_path(folder, "optimiser.safetensors"));
  for (std::size_t i = 0; i < shards.specs().size(); ++i) {
    const nn::ParameterSpec& s = shards.specs()[i];
    const auto load = [&](const Safetensors& file, const std::string& prefix, std::vector<std::byte>& joined) {
      std::span<const std::byte> data;
      for (const nn::StoredTensor& t : nn::stored_tensors(s)) {
        data = checked_view(file, prefix + t.name, t.shape, manifest, shards.owns(i)).data;
        if (!s.slices.empty()) {  // of several tensors
          joined.insert(joined.end(), data.begin(), data.end());
          data = joined;
        }
      }
      return data;
    };
    const auto kept = [&](const Safetensors& file, const std::string& prefix, const auto& from) {
      std::vector<std::byte> joined;
      return from(load(file, prefix, joined));
    };
    const auto moment = [&](std::span<const std::byte> whole) { return shards.moment_from(i, whole); };
    state.parameters.set(
        s.name, kept(weights, "", [&](std::span<const std::byte> whole) { return shards.parameter_from(i, whole); }));
    state.m.set(s.name, kept(optimiser, "m.", moment));
    state.v.set(s.name, kept(optimiser, "v.", moment));
  }
  return state;
}

}  // namespace

TrainState load_checkpoint(const std::string& folder, const RunRecipe& recipe, const Shards& shards) {
  TrainState state;
  dist::together(shards.ranks(), [&] { state = load_part(folder, recipe, shards); });
  return state;
}

}  // namespace isotone::train
