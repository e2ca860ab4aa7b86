// Ranks as processes: messages travel by Gloo's transport.
#pragma once

#include "dist/environment.h"

namespace isotone::dist {

/// A rank of more than one. Its waits end in an Error naming the rank that is gone, or that has sent nothing for
/// `timeout`.
std::unique_ptr<Communicator> join_gloo_ranks(const RankEnvironment& environment, std::chrono::milliseconds timeout);

}  // namespace isotone::dist
