// Tables of rotary embedding, from our own f64 functions: a function of position and frequency alone.
#pragma once

#include "tensor/tensor.h"

namespace isotone::nn {

struct RotaryTable {
  Tensor cos, sin;  // f32 [positions, width / 2]
};

/// Angles position * theta^(-2i/width) for positions below `positions`.
RotaryTable rotary_table(std::int64_t positions, std::int64_t width, double theta);

}  // namespace isotone::nn
