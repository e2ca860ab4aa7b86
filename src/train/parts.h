// Parts of whole tensors in memory: what a rank of a model's mesh holds of a parameter.
#pragma once

#include "ir/placement.h"

namespace isotone::train {

/// Where a worker's part of a tensor lies in the whole, dimension by dimension.
std::vector<Span> part_ranges(const ir::Shape& whole, const ir::Placement& placement,
                              const std::vector<int>& coordinates);

/// Copies a part out of a row-major f32 tensor of shape `whole`, or into it.
void copy_part_out(const ir::Shape& whole, const std::vector<Span>& part, const float* from, float* to);
void copy_part_in(const ir::Shape& whole, const std::vector<Span>& part, const float* from, float* to);

}  // namespace isotone::train
