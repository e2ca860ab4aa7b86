// What a recipe's data is, for people: its hash, its batches as text, and what differs from another's.
#pragma once

#include <string>
#include <vector>

#include "train/run_data.h"

namespace isotone::train {

/// Everything of a recipe that says which tokens stand where, as JSON by key: [data], [batch], the seed, and
/// `contents`.
RecipeFields data_fields(const RecipeFields& recipe, const RecipeFields& contents);

/// SHA-256 over what decides the batches: the tokens of each source, their order, packing and batch size. Names of
/// files do not count.
std::string data_sha256(const Recipe& recipe, const RecipeFields& contents);

/// Reads all grains of built data. Throws Error where they are not what its index says.
void verify_data(const RunData& data);

/// One document, or a piece of one, in a batch.
struct ShownDocument {
  std::int64_t grain = 0;         ///< of the batch
  std::string source;             ///< empty where the recipe names none
  std::int64_t source_grain = 0;  ///< of the source
  std::int64_t epoch = 0;         ///< of the source
  std::int64_t start = 0;         ///< token of the grain
  std::int64_t tokens = 0;        ///< without padding
  std::int64_t learned = 0;
  std::string text;
};
/// The documents of global batch `number` (0 is the first step's), in order.
std::vector<ShownDocument> show_batch(const Recipe& recipe, const Setup& setup, const RunData& data,
                                      std::int64_t number);
std::string hash_batch(const Recipe& recipe, const RunData& data, std::int64_t number);

/// data_fields() of a recipe or of a checkpoint's folder.
RecipeFields data_fields_of(const std::string& path);

struct FieldDifference {
  std::string key, a, b;  ///< JSON; empty where there is no such key
};
std::vector<FieldDifference> field_differences(const RecipeFields& a, const RecipeFields& b);

}  // namespace isotone::train
