// Who a process is among the ranks of a run, from the names that launchers set.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "dist/communicator.h"

namespace isotone::dist {

struct RankEnvironment {
  int rank = 0, size = 1;
  std::string host;  ///< where rank 0 waits for the others
  int port = 0;
};

/// Value of an environment variable; nullptr: not set.
using Lookup = std::function<const char*(const char*)>;

/// RANK and WORLD_SIZE (torchrun, Ray, Kubernetes jobs, isotone launch), else Open MPI's OMPI_COMM_WORLD_RANK and
/// _SIZE, else Slurm's SLURM_PROCID and SLURM_NTASKS; none set: one rank that is alone. More than one also need
/// MASTER_ADDR and MASTER_PORT. Under torchrun, which keeps that port, the next one is taken. Throws Error naming the
/// variable that is missing or wrong.
RankEnvironment rank_environment(const Lookup& lookup);

/// Meets the other ranks; every rank calls it. Throws Error after `timeout` naming who did not come, or where nobody
/// answers.
std::unique_ptr<Communicator> join_world(const RankEnvironment& environment, std::chrono::milliseconds timeout);

}  // namespace isotone::dist
