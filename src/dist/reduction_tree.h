// Forwards to base/reduction_tree.h while callers move.
#pragma once
#include "base/reduction_tree.h"
namespace isotone::dist {
using isotone::ReductionTree;
using isotone::Span;
using isotone::TreeKind;
}  // namespace isotone::dist
