// Replaces composites that the device does not take by what they are made of, until only primitives and taken ones are
// left.
#pragma once

#include <functional>

#include "ir/graph.h"

namespace isotone::passes {

using Takes = std::function<bool(const ir::Graph&, const ir::Instruction&)>;

/// Throws where a primitive is left that `takes` refuses only if `strict`; otherwise it stays for the caller to report.
ir::Graph decompose(const ir::Graph& graph, const Takes& takes);

}  // namespace isotone::passes
