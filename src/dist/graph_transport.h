// Carries the collectives of compiled graphs over a communicator.
#pragma once

#include <memory>

#include "dist/communicator.h"
#include "ops/transport.h"

namespace isotone::dist {

/// "group" attributes of the graphs hold ranks of `world`, which must outlive the transport.
std::shared_ptr<ops::Transport> graph_transport(Communicator& world);

}  // namespace isotone::dist
