// The text file from which Prometheus' node exporter (textfile collector) takes a run's figures.
#pragma once

#include <string>

#include "train/run.h"

namespace isotone::train {

/// In the exposition format 0.0.4; `recipe`, the start of its fingerprint, is each figure's label.
std::string prometheus_text(const StepReport& report, const std::string& recipe, int ranks);

}  // namespace isotone::train
