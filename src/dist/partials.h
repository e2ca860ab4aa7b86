// Forwards to base/partials.h while callers move.
#pragma once
#include "base/partials.h"
#include "dist/reduction_tree.h"
namespace isotone::dist {
using isotone::Partials;
}  // namespace isotone::dist
