// A recipe's data: sources, their weights, and stages in which other weights hold.
#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "data/order.h"
#include "train/recipe.h"
#include "train/recipe_toml.h"

namespace isotone::train {

namespace {

constexpr std::size_t kMostParts = 1024;  // sources, or stages

/// A table of tables, by their names.
void each_table(const toml::node& node, const std::string& prefix, const std::string& name,
                const std::function<void(const std::string&, const toml::table&, const std::string& where)>& each) {
  require(node.is_table(), "{}: {} must be tables such as [{}.books]", name, prefix, prefix);
  require(node.as_table()->size() <= kMostParts, "{}: {} has {} tables; at most {} are allowed", name, prefix,
          node.as_table()->size(), kMostParts);
  for (const auto& [key, value] : *node.as_table()) {
    const std::string part(key.str());
    const std::string where = fmt::format("{}, line {}: {}.{}", name, key.source().begin.line, prefix, part);
    require(value.is_table(), "{} must be a table such as [{}.books]", where, prefix);
    require(!part.empty() && part.size() <= 64 &&
                part.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") ==
                    std::string::npos,
            "{}: a name is of 1 to 64 letters, digits, '-' and '_'", where);
    each(part, *value.as_table(), where);
  }
}

std::int64_t weight_of(const toml::node& v, const std::string& where) {
  require(v.is_integer(), "{} must be a whole number: weights are exact, so 7 and 3 stand for 0.7 and 0.3", where);
  return toml_integer(v, where, 0, data::Mixture::kMostWeight);
}

}  // namespace

void read_sources(const toml::node& node, const std::string& name, Recipe& r) {
  const std::string prefix = "data.sources";
  each_table(node, prefix, name, [&](const std::string& part, const toml::table& table, const std::string& where) {
    require(part != kValidationName, "{}: this name is taken by data.validation", where);
    data::SourceSpec s;
    s.name = part;
    const std::string keys = prefix + "." + part + ".";
    read_table(table, keys, name,
               {{keys + "kind",
                 [&](const toml::node& v, const std::string& w) { s.kind = toml_choice(v, w, data::source_kinds()); }},
                {keys + "field", [&](const toml::node& v, const std::string& w) { s.field = toml_text(v, w); }},
                {keys + "files", [&](const toml::node& v, const std::string& w) { s.files = toml_texts(v, w); }},
                {keys + "weight", [&](const toml::node& v, const std::string& w) { s.weight = weight_of(v, w); }}});
    require(!s.files.empty(), "{}: files is missing or empty", where);
    r.sources.push_back(std::move(s));
  });
  std::sort(r.sources.begin(), r.sources.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
}

void read_stages(const toml::node& node, const std::string& name, Recipe& r) {
  const std::string prefix = "data.stages";
  each_table(node, prefix, name, [&](const std::string& part, const toml::table& table, const std::string& where) {
    RecipeStage stage;
    stage.name = part;
    const std::string keys = prefix + "." + part + ".";
    read_table(
        table, keys, name,
        {{keys + "from_step",
          [&](const toml::node& v, const std::string& w) { stage.from_step = toml_integer(v, w, 1, 1'000'000'000); }},
         {keys + "weights", [&](const toml::node& v, const std::string& w) {
            require(v.is_table(), "{} must be a table of weights by source", w);
            for (const auto& [source, weight] : *v.as_table()) {
              const std::string of = fmt::format("{}.{}", w, std::string(source.str()));
              stage.weights[std::string(source.str())] = weight_of(weight, of);
            }
          }}});
    require(stage.from_step > 0, "{}: from_step is missing", where);
    require(!stage.weights.empty(), "{}: weights is missing or empty", where);
    r.stages.push_back(std::move(stage));
  });
  std::sort(r.stages.begin(), r.stages.end(), [](const auto& a, const auto& b) { return a.from_step < b.from_step; });
}

void check_data(const std::string& name, Recipe& r) {
  require(r.files.empty() || r.sources.empty(), "{}: data.files and [data.sources] exclude each other", name);
  require(!r.files.empty() || !r.sources.empty(),
          "{}: data.files is missing or empty (and there is no [data.sources.NAME])", name);
  require(r.stages.empty() || !r.sources.empty(), "{}: [data.stages] needs [data.sources.NAME]", name);
  std::set<std::string> names;
  for (const data::SourceSpec& s : r.sources) {
    names.insert(s.name);
  }
  for (std::size_t i = 0; i < r.stages.size(); ++i) {
    const RecipeStage& stage = r.stages[i];
    require(i == 0 || stage.from_step > r.stages[i - 1].from_step, "{}: data.stages.{} and .{} begin at one step", name,
            stage.name, i == 0 ? "" : r.stages[i - 1].name);
    for (const auto& [source, weight] : stage.weights) {
      require(names.contains(source), "{}: data.stages.{}.weights: there is no source '{}'", name, stage.name, source);
    }
  }
  // So that every place in the data is a whole number that does not overflow.
  constexpr std::int64_t kMostGrains = std::int64_t{1} << 24;
  require(r.rounds * r.grains <= kMostGrains, "{}: {} rounds of {} grains are over {} grains a step", name, r.rounds,
          r.grains, kMostGrains);
  try {
    static_cast<void>(r.mixture());
  } catch (const Error& e) {
    throw e.in(name + ": [data]");
  }
}

std::vector<data::SourceSpec> Recipe::training_sources() const {
  return sources.empty() ? std::vector<data::SourceSpec>{{"", kind, field, files, 1}} : sources;
}

data::SourceSpec Recipe::validation_source() const {
  return {kValidationName, kind, field, validation, 1};
}

std::string Recipe::built_folder() const {
  return built.empty() ? join_path(out, "data") : built;
}

data::Mixture Recipe::mixture() const {
  std::vector<data::MixtureStage> all(1);
  for (const data::SourceSpec& s : training_sources()) {
    all[0].weights.push_back(s.weight);
  }
  for (const RecipeStage& stage : stages) {
    data::MixtureStage& next = all.emplace_back();
    next.first = stage.from_step * rounds * grains;
    for (const data::SourceSpec& s : sources) {
      const auto weight = stage.weights.find(s.name);
      next.weights.push_back(weight == stage.weights.end() ? 0 : weight->second);
    }
  }
  return {std::move(all), seed};
}

}  // namespace isotone::train
