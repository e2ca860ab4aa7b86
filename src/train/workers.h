// workers.jsonl of an out folder: who computed which steps. No number depends on it; it is there to find a chip that
// computes wrongly.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dist/communicator.h"

namespace isotone::train {

/// The workers that did the steps after `from_step`, until the next session began.
struct Session {
  std::int64_t from_step = 0;
  std::vector<std::string> hosts;  ///< by rank
  int model_ranks = 1;             ///< neighbours that share a model, and so their grains (grid.h)
  [[nodiscard]] int ranks() const { return static_cast<int>(hosts.size()); }
};

/// This machine's name.
std::string host_name();

/// Every rank calls it when a run begins or goes on at `from_step`: rank 0 adds a line. Sessions whose steps are done
/// again are dropped.
void note_session(const std::string& out, std::int64_t from_step, dist::Communicator& ranks, int model_ranks = 1);

/// In order; none where the folder has no such file (an older program's). Lines that are no sessions are left out.
std::vector<Session> read_sessions(const std::string& out);

/// Who computed step `step` (the first is 1); null where nobody noted it.
const Session* session_of(const std::vector<Session>& sessions, std::int64_t step);

/// The rank, or the first of those that share a model, that computes grain `grain` of a step whose rounds have
/// `round_grains` grains each.
int rank_of_grain(std::int64_t grain, std::int64_t round_grains, const Session& session);

inline constexpr const char* kWorkersFile = "workers.jsonl";

}  // namespace isotone::train
