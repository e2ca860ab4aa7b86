// The part of a recipe that decides numbers: one hash over it, and its fields one by one for whoever asks what differs.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/hash.h"
#include "base/tree.h"
#include "train/recipe.h"

namespace isotone::train {

std::string Recipe::fingerprint() const {
  // What came later stands in it only where it is set, so that older recipes keep their fingerprints.
  const std::string later = balance_loss < 0.0 ? "" : fmt::format("|balance {:a}", balance_loss);
  return sha256_hex(
      fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{:a}|{:a}|{:a}|{:a}|{:a}|{:a}|{}|{}|{:a}|{:a}|{}|{}|{}|{}{}",
                  kNumericsVersion, model, config, tokenizer, kind, fmt::join(files, ","), grain_tokens, rounds, grains,
                  lr, beta1, beta2, eps, weight_decay, clip, schedule, warmup, final_share, decay_share, steps,
                  dtype_name(dtype), seed, fmt::join(validation, ","), later));
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
  if (balance_loss >= 0.0) {
    all["train.balance_loss"] = balance_loss;
  }
  RecipeFields found;
  for (const auto& [key, value] : all.items()) {
    found[key] = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
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
