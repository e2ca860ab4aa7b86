// How costs of the cost model are shown.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "train/simulate.h"

namespace isotone::cli {

nlohmann::json cost_json(const train::Cost& cost);
/// Step time and its parts, memory and traffic; as one object where `json`.
void show_simulation(const train::Simulation& simulation, bool json);
/// The published rows: predicted, published, error.
void show_published(bool json);

}  // namespace isotone::cli
