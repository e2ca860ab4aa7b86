// Arithmetic of a training step, and what the machine's matrix products reach.
#pragma once

#include "base/dtype.h"
#include "dist/communicator.h"
#include "formats/model_config.h"
#include "nn/parameters.h"

namespace isotone::train {

/// Floating-point operations that a step on `grains` grains of `tokens` tokens needs: six for each token and each
/// element of a matrix it is multiplied with (two forward, four backward), and twelve for each pair of a token and one
/// that it may look at, a layer and an element of its heads. Looking up embeddings, norms, and what is computed again
/// to save memory do not count (Chowdhery et al., 2022, appendix B, with the half of attention that is masked left
/// out).
double step_flops(const ModelConfig& config, const std::vector<nn::ParameterSpec>& specs, double grains, double tokens);

/// Operations a second of all ranks' matrix products in `dtype`, done at once: the peak that a run's share is of. About
/// 50 ms; every rank calls it.
double matmul_flops_a_second(dist::Communicator& ranks, DType dtype);

}  // namespace isotone::train
