// The one header for users of the library: tensors and their operations, gradients, layers, models, and the devices to
// run on. Link the CMake target isotone::isotone.
#pragma once

#include <string_view>

#include "base/error.h"
#include "base/parallel.h"
#include "models/load.h"
#include "models/model.h"
#include "models/tokenizer.h"
#include "nn/attention_state.h"
#include "nn/parameters.h"
#include "nn/rotary.h"
#include "nn/sampling.h"
#include "tensor/tensor.h"
#include "tensor/transforms.h"

namespace isotone {

/// Makes this device the default one: "cpu", or "interpreter" (the slow scalar definition of every bit). To be called
/// once, before any tensor is made. Throws Error for other names.
void use_device(std::string_view name);

}  // namespace isotone
