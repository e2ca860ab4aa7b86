// Flags that several commands share, so that they are named and explained once.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "nn/sampling.h"
#include "serve/loaded_model.h"

namespace isotone::cli {

/// A whole number, at least `low`. CLI11's own PositiveNumber names a limit of 300 digits.
inline CLI::Range at_least(std::int64_t low) {
  return {low, std::int64_t{1} << 40};
}

struct ModelFlags {
  std::string path;
  serve::LoadOptions options;
};
/// MODEL, --dtype, --threads, --context.
void add_model_flags(CLI::App& command, ModelFlags& flags);

/// --temperature, --top-k, ..., --seed, --stop. Defaults of the struct are shown in the help.
void add_sampling_flags(CLI::App& command, nn::SamplingParams& sampling, std::vector<std::string>& stop);

/// Throws CLI::ValidationError (wrong usage) for a parameter out of range, before a model is loaded.
void check_sampling(const nn::SamplingParams& sampling);

/// All bytes of a file, or of standard input for "-". Throws Error.
std::string read_all(const std::string& path);

}  // namespace isotone::cli
