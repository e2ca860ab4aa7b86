// Ranks as threads of one process: how the sharded forms are tried without a network.
#pragma once

#include <functional>

#include "dist/communicator.h"

namespace isotone::dist {

/// Calls `body` once for each of `ranks` ranks, each on a thread of its own, and waits for all. Where one throws, the
/// others' waits end in Errors and the first one's Error is thrown here, its rank in front.
void run_in_process(int ranks, const std::function<void(Communicator&)>& body);

}  // namespace isotone::dist
