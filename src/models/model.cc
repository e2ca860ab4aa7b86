#include "models/model.h"

#include <fmt/ranges.h>

#include <utility>

#include "base/error.h"
#include "models/table.h"
#include "nn/rotary.h"

namespace isotone::models {

namespace {

constexpr std::pair<std::string_view, Recompute> kRecompute[] = {
    {"none", Recompute::none}, {"light", Recompute::light}, {"mlp", Recompute::mlp}, {"layer", Recompute::layer}};

}  // namespace

std::vector<std::string> recompute_names() {
  std::vector<std::string> names;
  for (const auto& [name, value] : kRecompute) {
    names.emplace_back(name);
  }
  return names;
}

Recompute parse_recompute(std::string_view name) {
  for (const auto& [known, value] : kRecompute) {
    if (known == name) {
      return value;
    }
  }
  fail("recompute '{}' is unknown; there are {}", name, fmt::join(recompute_names(), ", "));
}

const Architecture& architecture_of(const ModelConfig& config) {
  std::string known;
  for (const auto& make : kArchitectures) {
    const Architecture& a = make();
    if (a.name == config.model_type) {
      return a;
    }
    known += (known.empty() ? "" : ", ") + std::string(a.name);
  }
  fail("model type '{}' is not known; there are: {}", config.model_type, known);
}

void add_tables(const ModelConfig& config, nn::Parameters& parameters) {
  const nn::RotaryTable table = nn::rotary_table(config.max_position, config.head_dim, config.rope_theta);
  parameters.set(kCosTable, table.cos);
  parameters.set(kSinTable, table.sin);
}

}  // namespace isotone::models
