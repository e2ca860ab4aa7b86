// One timeline of all ranks, as Chrome's tracing pages and Perfetto read it.
#pragma once

#include <functional>
#include <string>

#include "base/timeline.h"
#include "dist/communicator.h"

namespace isotone::train {

/// Nanoseconds that rank 0's clock is ahead of this rank's; 0 on rank 0. Rank 0 asks each rank for its time and takes
/// the answer that came back soonest to be from the middle of the wait (Cristian, 1989): the fault is at most half that
/// wait. Every rank calls it.
std::int64_t clock_offset(dist::Communicator& ranks, const std::function<std::int64_t()>& clock = clock_ns);

/// The text of a rank's part: events of the trace event format separated by commas. A rank is a process (pid) with the
/// tracks "compute" (data and checkpoints too) and "communication"; times are microseconds since `zero` on rank 0's
/// clock.
std::string timeline_events(const Timeline& timeline, int rank, std::int64_t offset, std::int64_t zero);

/// Writes all ranks' parts into one file, on rank 0. Every rank calls it; an Error is every rank's.
void write_timeline(const std::string& path, const Timeline& timeline, std::int64_t offset, std::int64_t zero,
                    dist::Communicator& ranks);

}  // namespace isotone::train
