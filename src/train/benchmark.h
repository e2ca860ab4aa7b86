// Training steps of a synthetic model and batch, for `isotone bench train`: the same Stepper as a run's.
#pragma once

#include <cstdint>
#include <string>

#include "base/dtype.h"
#include "dist/communicator.h"
#include "formats/model_config.h"

namespace isotone::train {

struct BenchmarkOptions {
  std::string size = "135m";  ///< shapes of SmolLM2: "135m" or "360m"; or "small", "tiny"
  std::int64_t batch = 1;     ///< grains, computed at once
  std::int64_t seq = 512;     ///< tokens of a grain, a multiple of 64
  DType dtype = DType::f32;
  std::int64_t steps = 5;           ///< timed ones, after one that is not
  std::string recompute = "light";  ///< as in a recipe
  std::string data_mode = "zero2";  ///< as in a recipe; of several ranks
};

struct BenchmarkResult {
  double seconds = 0.0;  ///< of the median step
  double tok_s = 0.0;
  double loss = 0.0;              ///< of the last step
  std::size_t planned_bytes = 0;  ///< parameters, moments, gradients, and the plan's intermediate values
  std::size_t sent_bytes = 0;     ///< in the last step
};

/// The configuration of a size. Throws Error for one that is not known.
ModelConfig benchmark_config(const BenchmarkOptions& options);
/// On all of `ranks`, each of which calls it. Throws Error for shapes that do not fit.
BenchmarkResult benchmark_training(const BenchmarkOptions& options, dist::Communicator& ranks);

}  // namespace isotone::train
