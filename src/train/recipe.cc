#include "train/recipe.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/fmath.h"
#include "base/numerics.h"
#include "base/tree.h"
#include "models/model.h"
#include "train/recipe_toml.h"
#include "train/shards.h"

namespace isotone::train {

namespace {

Setters setters(Recipe& r) {
  constexpr std::int64_t kMany = 1'000'000'000;
  const auto whole = [](std::int64_t& to, std::int64_t low, std::int64_t high) {
    return [&to, low, high](const toml::node& v, const std::string& w) { to = toml_integer(v, w, low, high); };
  };
  const auto ranks = [](int& to) {
    return [&to](const toml::node& v, const std::string& w) { to = static_cast<int>(toml_integer(v, w, 1, 1 << 16)); };
  };
  const auto number = [](double& to, double low, double high) {
    return [&to, low, high](const toml::node& v, const std::string& w) { to = toml_real(v, w, low, high); };
  };
  const auto words = [](std::string& to) {
    return [&to](const toml::node& v, const std::string& w) { to = toml_text(v, w); };
  };
  const auto one_of = [](std::string& to, std::vector<std::string> allowed) {
    return [&to, allowed = std::move(allowed)](const toml::node& v, const std::string& w) {
      to = toml_choice(v, w, allowed);
    };
  };
  return {
      {"model.path", words(r.model)},
      {"model.config", words(r.config)},
      {"model.tokenizer", words(r.tokenizer)},
      {"data.kind", one_of(r.kind, data::source_kinds())},
      {"data.field", words(r.field)},
      {"data.files", [&r](const toml::node& v, const std::string& w) { r.files = toml_texts(v, w); }},
      {"data.validation", [&r](const toml::node& v, const std::string& w) { r.validation = toml_texts(v, w); }},
      {"data.built", words(r.built)},
      {"data.grain_tokens", whole(r.grain_tokens, kAttentionBlock, 1 << 20)},
      {"batch.rounds", whole(r.rounds, 1, 1 << 20)},
      {"batch.grains", whole(r.grains, 1, 1 << 20)},
      {"optimiser.lr", number(r.lr, 0.0, 100.0)},
      {"optimiser.beta1", number(r.beta1, 0.0, 0.999999)},
      {"optimiser.beta2", number(r.beta2, 0.0, 0.999999)},
      {"optimiser.eps", number(r.eps, 1e-20, 1.0)},
      {"optimiser.weight_decay", number(r.weight_decay, 0.0, 100.0)},
      {"optimiser.clip", number(r.clip, 1e-6, 1e9)},
      {"schedule.kind", one_of(r.schedule, {"cosine", "wsd", "constant"})},
      {"schedule.warmup", whole(r.warmup, 0, kMany)},
      {"schedule.final_share", number(r.final_share, 0.0, 1.0)},
      {"schedule.decay_share", number(r.decay_share, 0.0, 1.0)},
      {"train.steps", whole(r.steps, 1, kMany)},
      {"train.dtype",
       [&r](const toml::node& v, const std::string& w) {
         r.dtype = parse_dtype(toml_choice(v, w, {"f32", "bf16"}));
       }},
      {"train.seed",
       [&r](const toml::node& v, const std::string& w) {
         r.seed = static_cast<std::uint64_t>(toml_integer(v, w, 0, INT64_MAX));
       }},
      {"train.numerics", one_of(r.numerics, numerics_profile_names())},
      {"train.recompute", one_of(r.recompute, models::recompute_names())},
      {"train.balance_loss", number(r.balance_loss, 0.0, 1e6)},
      {"train.eval_every", whole(r.eval_every, 0, kMany)},
      {"train.eval_grains", whole(r.eval_grains, 1, kMany)},
      {"train.checkpoint_every", whole(r.checkpoint_every, 0, kMany)},
      {"train.keep", whole(r.keep, 1, 1 << 20)},
      {"train.out", words(r.out)},
      {"train.tensorboard", words(r.tensorboard)},
      {"train.prometheus", words(r.prometheus)},
      {"parallel.data", one_of(r.data_mode, data_mode_names())},
      {"parallel.context", ranks(r.context)},
      {"parallel.expert", ranks(r.expert)},
      {"parallel.tensor", ranks(r.tensor)},
  };
}

}  // namespace

Recipe parse_recipe(const std::string& content, const std::string& name) {
  Recipe r;
  toml::table table;
  try {
    table = toml::parse(content, name);
  } catch (const toml::parse_error& e) {
    fail("{}, line {}: {}", name, e.source().begin.line, e.description());
  }
  Setters known = setters(r);
  known["data.sources"] = [&](const toml::node& v, const std::string&) { read_sources(v, name, r); };
  known["data.stages"] = [&](const toml::node& v, const std::string&) { read_stages(v, name, r); };
  for (const auto& [section, node] : table) {
    const std::string prefix(section.str());
    require(node.is_table(), "{}: '{}' stands outside a section such as [train]", name, prefix);
    read_table(*node.as_table(), prefix + ".", name, known);
  }
  require(r.model.empty() != r.config.empty(),
          "{}: [model] needs either path (a model to start from) or config (of a fresh one)", name);
  require(r.config.empty() || !r.tokenizer.empty(),
          "{}: a fresh model needs model.tokenizer, a folder or .gguf that has one", name);
  require(r.grain_tokens % kAttentionBlock == 0, "{}: data.grain_tokens is {}; it must be a multiple of {}", name,
          r.grain_tokens, kAttentionBlock);
  require(r.warmup < r.steps, "{}: schedule.warmup ({}) must be below train.steps ({})", name, r.warmup, r.steps);
  check_data(name, r);
  require(r.eval_every == 0 || !r.validation.empty(), "{}: train.eval_every needs data.validation", name);
  return r;
}

Recipe read_recipe(const std::string& path) {
  return parse_recipe(read_text_file(path, 1 << 20), path);
}

double learning_rate(const Recipe& r, std::int64_t step) {
  const auto s = static_cast<double>(step);
  const auto total = static_cast<double>(r.steps);
  if (step < r.warmup) {
    return r.lr * (s + 1.0) / static_cast<double>(r.warmup);
  }
  if (r.schedule == "constant") {
    return r.lr;
  }
  if (r.schedule == "cosine") {
    const double span = std::max(1.0, total - static_cast<double>(r.warmup) - 1.0);
    const double at = std::min(1.0, (s - static_cast<double>(r.warmup)) / span);
    return r.lr * (r.final_share + (1.0 - r.final_share) * 0.5 * (1.0 + fmath64::cos(3.14159265358979323846 * at)));
  }
  // Warm-up, stable, decay (Hu et al., 2024): the last share of the steps goes down in a straight line.
  const double decay = std::max(1.0, r.decay_share * total);
  const double into = s - (total - decay);
  return into <= 0.0 ? r.lr : r.lr * (1.0 - (1.0 - r.final_share) * std::min(1.0, into / decay));
}

}  // namespace isotone::train
