// manifest.json of a checkpoint: what it is and the checksums of all it holds. Read as what a stranger may have
// written.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "train/recipe.h"

namespace isotone::train {

/// A recipe that a run went by before it was told to go on under another one.
struct EarlierRecipe {
  std::string fingerprint;
  std::int64_t steps = 0;  ///< done when it was left
  friend bool operator==(const EarlierRecipe&, const EarlierRecipe&) = default;
};

struct Manifest {
  int numerics = 0;     ///< version of the contract
  std::string profile;  ///< of the contract
  std::int64_t step = 0, tokens = 0;
  std::string recipe;     ///< its fingerprint
  RecipeFields fields;    ///< of the recipe; none in manifests of older programs
  RecipeFields contents;  ///< hashes of its data (RunData); none in manifests of older programs
  std::vector<EarlierRecipe> earlier;
  std::map<std::string, std::string> tensors;  ///< SHA-256 of each tensor's bytes
  std::map<std::string, std::string> files;    ///< SHA-256 of the text files; none in manifests of older programs
};

/// Reads `folder`/manifest.json. Throws Error naming the file and what is wrong with it: not there, no JSON, a key that
/// is missing or of the wrong kind or size, a format of a newer program.
Manifest read_manifest(const std::string& folder);
std::string manifest_json(const Manifest& manifest);

/// The keys whose values differ, with both values: "optimiser.lr is 0.001 there and 0.003 here; ...".
std::string recipe_differences(const RecipeFields& there, const RecipeFields& here);

inline constexpr const char* kManifestFile = "manifest.json";

}  // namespace isotone::train
