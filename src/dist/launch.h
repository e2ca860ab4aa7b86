// Starts the ranks of a run as processes of one machine, watches them, and starts again with those that are left.
#pragma once

#include <chrono>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

namespace isotone::dist {

/// Exit code of a rank that has nothing against the run but lost the others (75, EX_TEMPFAIL of sysexits.h): starting
/// again may help.
inline constexpr int kExitRankLost = 75;

struct LaunchOptions {
  std::string program;                 ///< path of what each rank runs
  std::vector<std::string> arguments;  ///< without the program's name
  int ranks = 1;                       ///< on this machine
  int hosts = 1, host = 0;  ///< machines that take part, each with a launcher and as many ranks; this one's number
  std::string meet_host = "127.0.0.1";
  int meet_port = 0;  ///< 0: a free one, chosen at each start; several hosts need one
  int most_restarts = 3;
  bool keep_ranks = false;                 ///< start again as many as before, whoever was lost; so with several hosts
  std::chrono::milliseconds grace{10000};  ///< how long ranks have to end by themselves once one has
  std::string logs;  ///< folder for what ranks other than the first print; empty: they share our output
};

/// One start and what came of it.
struct Generation {
  int ranks = 0;
  std::vector<int> lost;  ///< ranks on this machine that were killed, or that had to be
  int exit_code = 0;  ///< of the ranks that ended by themselves: the first that says more than "rank lost", else that
};

struct LaunchResult {
  int exit_code = 0;  ///< as of the last generation
  std::vector<Generation> generations;
};

/// Starts the ranks with RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT and a share of the cores
/// (ISOTONE_THREADS, unless it is set), and waits for them. A stop request is passed on as SIGTERM, each time `stops`
/// counts one more. Ranks get SIGTERM where the launcher itself dies. Throws Error where a process cannot be started.
LaunchResult launch(const LaunchOptions& options, const std::function<int()>& stops,
                    const std::function<void(const std::string&)>& note);

}  // namespace isotone::dist
