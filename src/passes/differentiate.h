// Reverse-mode differentiation of the recorded graph, before any other pass (docs/numerics.md, section 6).
#pragma once

#include "ir/value.h"

namespace isotone::passes {

/// Gradients of sum(outputs[i] * cotangents[i]) with respect to `wrt`, one per entry, in the entries' shapes. What
/// several uses send back is added by fan_in() in the order in which the uses were recorded. A gradient is f32 where a
/// weight's gradient reaches the entry unrounded, else of the entry's dtype; where nothing reaches it, it is none.
ir::Values differentiate(const ir::Values& outputs, const ir::Values& cotangents, const ir::Values& wrt);

}  // namespace isotone::passes
