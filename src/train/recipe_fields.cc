// The part of a recipe that decides numbers: one hash over it, and its fields one by one for whoever asks what differs.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/hash.h"
#include "base/tree.h"
#include "train/recipe.h"

namespace isotone::train {

namespace {

/// Keys of a recipe that says more than the first version could: older ones keep their fingerprints.
nlohmann::json later_keys(const Recipe& r) {
  nlohmann::json all = nlohmann::json::object();
  if (r.balance_loss >= 0.0) {
    all["train.balance_loss"] = r.balance_loss;
  }
  if (data::has_field(r.kind)) {
    all["data.field"] = r.field;
  }
  for (const data::SourceSpec& s : r.sources) {
    const std::string key = "data.sources." + s.name + ".";
    all[key + "kind"] = s.kind;
    all[key + "files"] = s.files;
    all[key + "weight"] = s.weight;
    if (data::has_field(s.kind)) {
      all[key + "field"] = s.field;
    }
  }
  for (const RecipeStage& stage : r.stages) {
    const std::string key = "data.stages." + stage.name + ".";
    all[key + "from_step"] = stage.from_step;
    for (const auto& [source, weight] : stage.weights) {
      all[key + "weights." + source] = weight;
    }
  }
  return all;
}

std::string text_of(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::string Recipe::fingerprint() const {
  std::string all = fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{:a}|{:a}|{:a}|{:a}|{:a}|{:a}|{}|{}|{:a}|{:a}|{}|{}|{}|{}",
                                kNumericsVersion, model, config, tokenizer, kind, fmt::join(files, ","), grain_tokens,
                                rounds, grains, lr, beta1, beta2, eps, weight_decay, clip, schedule, warmup,
                                final_share, decay_share, steps, dtype_name(dtype), seed, fmt::join(validation, ","));
  if (const nlohmann::json more = later_keys(*this); !more.empty()) {
    all += "|" + text_of(more);
  }
  return sha256_hex(all);
}

RecipeFields Recipe::fields() const {
  nlohmann::json all{{"model.path", model},
                     {"model.config", config},
                     {"model.tokenizer", tokenizer},
                     {"data.kind", kind},
                     {"data.files", files},
                     {"data.validation", validation},
                     {"data.grain_tokens", grain_tokens},
                     {"batch.rounds", rounds},
                     {"batch.grains", grains},
                     {"optimiser.lr", lr},
                     {"optimiser.beta1", beta1},
                     {"optimiser.beta2", beta2},
                     {"optimiser.eps", eps},
                     {"optimiser.weight_decay", weight_decay},
                     {"optimiser.clip", clip},
                     {"schedule.kind", schedule},
                     {"schedule.warmup", warmup},
                     {"schedule.final_share", final_share},
                     {"schedule.decay_share", decay_share},
                     {"train.steps", steps},
                     {"train.dtype", dtype_name(dtype)},
                     {"train.seed", seed}};
  if (files.empty()) {
    all.erase("data.files");
  }
  all.update(later_keys(*this));
  RecipeFields found;
  for (const auto& [key, value] : all.items()) {
    found[key] = text_of(value);
  }
  return found;
}

Recipe recipe_of_fields(const RecipeFields& fields, const std::string& name) {
  std::string toml;
  for (const auto& [key, value] : fields) {
    toml += fmt::format("{} = {}\n", key, value);  // JSON of texts, numbers and lists of them is TOML
  }
  return parse_recipe(toml, name);
}

}  // namespace isotone::train
