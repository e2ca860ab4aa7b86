// The data of a run: sources tokenized and packed, in the order of the recipe.
#pragma once

#include <optional>

#include "data/stream.h"
#include "train/setup.h"

namespace isotone::train {

struct RunData {
  std::optional<data::Stream> stream;
  std::shared_ptr<const data::Grains> validation;  ///< none where nothing is evaluated
};

/// Reads and tokenizes what the recipe names. Throws Error naming file and line.
RunData open_data(const Recipe& recipe, const Setup& setup);

}  // namespace isotone::train
