// What one rank of a run takes.
#pragma once

#include "train/step.h"

namespace isotone::train {

/// Of the rank whose stepper it is, as RankPlan::total() says it. Bytes.
std::size_t planned_bytes(const Recipe& recipe, Stepper& stepper);

}  // namespace isotone::train
