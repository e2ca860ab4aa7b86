// Weights of a checkpoint as parameters of a model, in the dtype asked for.
#pragma once

#include "formats/model_files.h"
#include "models/model.h"

namespace isotone::models {

/// How weights are held. `native` keeps what the file has: quantised weights stay packed and are computed with in f32,
/// bf16 and f32 files stay as they are.
enum class WeightDtype { f32, bf16, native };
/// From "f32", "bf16" or "native"; throws Error otherwise.
WeightDtype parse_weight_dtype(std::string_view text);

struct LoadedWeights {
  nn::Parameters parameters;  // rotary tables included
  DType compute = DType::f32;
};

/// Every parameter of the architecture from the files: its shape checked, converted on all threads, marked constant if
/// so. Throws Error naming the parameter that is missing or has another shape.
LoadedWeights load_weights(const ModelFiles& files, WeightDtype dtype, bool constant);

}  // namespace isotone::models
