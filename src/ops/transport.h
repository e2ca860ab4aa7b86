// How a collective operation reaches the other workers. What carries it (dist/) is handed in when a graph is compiled.
#pragma once

#include "ops/op.h"

namespace isotone::ops {

class Transport {
 public:
  virtual ~Transport() = default;
  /// Runs one call of a collective; all workers of its group make it, in the same order. Throws Error naming who is
  /// late, gone, or making another call.
  virtual void run(std::string_view op, const ReferenceCall& call) = 0;
};

}  // namespace isotone::ops
