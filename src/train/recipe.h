// A training recipe: everything that decides the numbers of a run, read from TOML and checked.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "data/order.h"
#include "data/source.h"

namespace isotone::train {

/// JSON text by key.
using RecipeFields = std::map<std::string, std::string>;

/// Weights that hold from a step on, by source; one that is not named has weight 0.
struct RecipeStage {
  std::string name;
  std::int64_t from_step = 0;
  std::map<std::string, std::int64_t> weights;
};

/// Stands for the evaluation split where sources are named.
inline constexpr const char* kValidationName = "validation";

struct Recipe {
  // [model]
  std::string model;      ///< folder or .gguf to start from
  std::string config;     ///< or: config.json of a fresh model
  std::string tokenizer;  ///< of a fresh model: a folder or .gguf that has one
  // [data]
  std::string kind = "text";   ///< of files and validation: data::source_kinds()
  std::string field = "text";  ///< of jsonl
  std::vector<std::string> files;
  std::vector<data::SourceSpec> sources;  ///< by name; in place of files
  std::vector<RecipeStage> stages;        ///< by step
  std::vector<std::string> validation;    ///< files of the evaluation split; may be empty
  std::int64_t grain_tokens = 256;
  std::string built;  ///< folder of the tokenized data; empty: built_folder() says
  // [batch]
  std::int64_t rounds = 1;
  std::int64_t grains = 2;  ///< of a round
  // [optimiser]
  double lr = 1e-4, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.1, clip = 1.0;
  // [schedule]
  std::string schedule = "cosine";  ///< cosine, wsd (warm-up, stable, decay) or constant
  std::int64_t warmup = 0;          ///< steps
  double final_share = 0.1;         ///< the last learning rate as a share of lr
  double decay_share = 0.2;         ///< wsd: share of all steps that decays
  // [train]
  std::int64_t steps = 100;
  DType dtype = DType::f32;  ///< of the computation; masters are f32
  std::uint64_t seed = 0;
  std::string numerics;  ///< profile of docs/numerics.md, section 3; empty: the process's
  /// What is computed again in the backward pass, not kept: none, light (norms and SwiGLU), mlp or layer. Equal bits.
  std::string recompute = "light";
  /// What a model with experts adds of the balance loss; below 0: what its config.json says.
  double balance_loss = -1.0;
  std::int64_t eval_every = 0;  ///< steps; 0: never
  std::int64_t eval_grains = 8;
  std::int64_t checkpoint_every = 0;  ///< steps; 0: at the end only
  std::int64_t keep = 2;              ///< newest checkpoints kept
  std::string out = "build/run";
  std::string tensorboard;  ///< folder of event files; empty: none
  std::string prometheus;   ///< file of figures, replaced at each step; empty: none
  // [parallel]
  /// What is cut among the data-parallel ranks (shards.h). Equal bits.
  std::string data_mode = "replicated";
  /// Ranks that share a model's graph, by tokens of a grain, experts and features (grid.h). Equal bits.
  int context = 1, expert = 1, tensor = 1;

  /// What is learned: the sources, or one without a name.
  [[nodiscard]] std::vector<data::SourceSpec> training_sources() const;
  [[nodiscard]] data::SourceSpec validation_source() const;
  [[nodiscard]] data::Mixture mixture() const;
  /// Where its built data lies, if there is any: `built`, or "data" in the out folder.
  [[nodiscard]] std::string built_folder() const;

  /// SHA-256 over everything above that decides numbers (not built, out, tensorboard, prometheus, keep,
  /// checkpoint_every, recompute, data_mode, context, expert, tensor).
  [[nodiscard]] std::string fingerprint() const;
  /// What the fingerprint is made of, by key ("optimiser.lr"): values as JSON that gives them back exactly. A recipe of
  /// these keys alone has the same fingerprint.
  [[nodiscard]] RecipeFields fields() const;
};

/// The recipe of some fields, the rest as by default; `name` stands in front of messages.
Recipe recipe_of_fields(const RecipeFields& fields, const std::string& name);

/// Reads and checks a recipe; relative paths are taken from the working directory. Throws Error naming the file, the
/// key, what was found and what is allowed; for an unknown key, the nearest known one.
Recipe read_recipe(const std::string& path);
Recipe parse_recipe(const std::string& text, const std::string& name);

/// Learning rate of step `step` (0 is the first): f64, a function of the recipe and the step alone.
double learning_rate(const Recipe& recipe, std::int64_t step);

}  // namespace isotone::train
