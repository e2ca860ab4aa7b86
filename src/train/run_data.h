// The data of a run: sources tokenized and packed, in memory or in a folder of shards, in the order of the recipe.
#pragma once

#include <functional>
#include <optional>

#include "data/built.h"
#include "data/stream.h"
#include "dist/communicator.h"
#include "train/setup.h"

namespace isotone::train {

struct RunData {
  std::optional<data::Stream> stream;
  std::shared_ptr<const data::Grains> validation;  ///< none where nothing is evaluated
  /// What the recipe's names stood for, by key, as JSON: hashes of the tokenizer and of each source's tokens.
  RecipeFields contents;
  std::string built;  ///< folder of the shards; empty: in memory
};

/// What `isotone data build` builds of a recipe.
data::BuildPlan build_plan(const Recipe& recipe, const Setup& setup);

struct BuildResult {
  data::BuiltIndex index;
  std::string why;  ///< it was built; empty: it was up to date
};
/// Makes built_folder() what the recipe says; `force`: even where it is that.
BuildResult build_data(const Recipe& recipe, const Setup& setup, bool force = false);

/// Reads the recipe's built data, which rank 0 builds or builds anew where the recipe names a folder (data.built), or
/// there is one in its out folder; else tokenizes into memory. Every rank calls it. Throws Error, on every rank, naming
/// file and line. `on_note` hears of builds.
RunData open_data(const Recipe& recipe, const Setup& setup, dist::Communicator& ranks,
                  const std::function<void(const std::string&)>& on_note);

}  // namespace isotone::train
