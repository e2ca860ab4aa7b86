// A function as a graph: what compile() and its kin over several workers begin with.
#pragma once

#include "tensor/transforms.h"

namespace isotone {

struct Traced {
  ir::Graph graph;  // inputs: the arguments, then what f captured
  std::vector<device::BufferPtr> captured;
};

/// Calls f once on placeholders of these types.
Traced trace(const Function& f, const std::vector<Type>& types);

/// Runs the passes for the default device and compiles; donated: by graph input, may be shorter.
std::unique_ptr<device::Executable> compile_traced(ir::Graph graph, const CompileSettings& settings,
                                                   std::shared_ptr<ops::Transport> transport = nullptr);

/// Memory of the arguments (computed first where they are not) and of what was captured.
std::vector<device::BufferPtr> buffers_of(const Tensors& arguments, const std::vector<device::BufferPtr>& captured);

}  // namespace isotone
