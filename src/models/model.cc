#include "models/model.h"

#include "base/error.h"
#include "models/table.h"
#include "nn/rotary.h"

namespace isotone::models {

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
