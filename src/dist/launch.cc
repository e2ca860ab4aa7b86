#include "dist/launch.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/parallel.h"
#include "dist/worker_process.h"

namespace isotone::dist {

namespace {

using Clock = std::chrono::steady_clock;
using Note = std::function<void(const std::string&)>;
constexpr auto kGlance = std::chrono::milliseconds(20);  // between two looks at the ranks

int free_port(const std::string& host) {
  boost::asio::io_context io;
  boost::asio::ip::tcp::acceptor acceptor(io, {boost::asio::ip::make_address(host), 0});
  return acceptor.local_endpoint().port();
}

std::vector<WorkerProcess> start(const LaunchOptions& o, int ranks) {
  const int port = o.meet_port != 0 ? o.meet_port : free_port(o.meet_host);
  std::vector<WorkerProcess> workers;
  for (int r = 0; r < ranks; ++r) {
    const int rank = o.host * ranks + r;
    WorkerProcess::Variables variables{{"RANK", std::to_string(rank)},
                                       {"WORLD_SIZE", std::to_string(ranks * o.hosts)},
                                       {"LOCAL_RANK", std::to_string(r)},
                                       {"MASTER_ADDR", o.meet_host},
                                       {"MASTER_PORT", std::to_string(port)}};
    if (std::getenv("ISOTONE_THREADS") == nullptr) {
      variables.emplace_back("ISOTONE_THREADS", std::to_string(std::max(1, thread_count() / ranks)));
    }
    const std::string log = o.logs.empty() || r == 0 ? "" : join_path(o.logs, fmt::format("rank-{}.log", rank));
    workers.emplace_back(o.program, o.arguments, variables, log);
  }
  return workers;
}

std::string how_it_ended(int status) {
  return WIFSIGNALED(status)
             ? fmt::format("was killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)))
             : fmt::format("ended with exit code {}", WEXITSTATUS(status));
}

/// Waits for all of them; those that do not end by themselves once another has failed are killed and count as lost.
Generation watch(const LaunchOptions& o, std::vector<WorkerProcess> workers, const std::function<int()>& stops,
                 const Note& note) {
  Generation g;
  g.ranks = static_cast<int>(workers.size()) * o.hosts;
  std::vector<bool> seen(workers.size(), false), killed(workers.size(), false);
  std::optional<Clock::time_point> first_fault;
  int passed_on = 0;
  std::size_t running = workers.size();
  while (running > 0) {
    for (std::size_t r = 0; r < workers.size(); ++r) {
      const std::optional<int> status = workers[r].ended();
      if (seen[r] || !status) {
        continue;
      }
      seen[r] = true;
      --running;
      if (WIFEXITED(*status) && WEXITSTATUS(*status) == 0) {
        continue;
      }
      first_fault = first_fault.value_or(Clock::now());
      const int rank = o.host * static_cast<int>(workers.size()) + static_cast<int>(r);
      if (WIFSIGNALED(*status)) {
        g.lost.push_back(rank);
        if (!killed[r]) {
          note(fmt::format("rank {} {}", rank, how_it_ended(*status)));
        }
      } else if (g.exit_code == 0 || g.exit_code == kExitRankLost) {
        g.exit_code = WEXITSTATUS(*status);
      }
    }
    for (const int asked = stops(); passed_on < asked; ++passed_on) {
      for (const WorkerProcess& w : workers) {
        w.signal(SIGTERM);
      }
    }
    if (first_fault && Clock::now() - *first_fault > o.grace) {
      for (std::size_t r = 0; r < workers.size(); ++r) {
        if (!seen[r] && !killed[r]) {
          killed[r] = true;
          note(fmt::format("rank {} does not end though others have: it is stopped or hangs, and is killed",
                           o.host * static_cast<int>(workers.size()) + static_cast<int>(r)));
          workers[r].signal(SIGKILL);
        }
      }
    }
    std::this_thread::sleep_for(running > 0 ? kGlance : std::chrono::milliseconds(0));
  }
  if (!g.lost.empty() && g.exit_code == 0) {
    g.exit_code = kExitRankLost;
  }
  std::sort(g.lost.begin(), g.lost.end());
  return g;
}

}  // namespace

LaunchResult launch(const LaunchOptions& o, const std::function<int()>& stops, const Note& note) {
  require(o.ranks >= 1 && o.hosts >= 1 && 0 <= o.host && o.host < o.hosts, "host {} of {} with {} ranks each", o.host,
          o.hosts, o.ranks);
  require(o.hosts == 1 || o.meet_port != 0, "{} hosts need a port to meet at", o.hosts);
  if (!o.logs.empty()) {
    make_folders(o.logs);
  }
  LaunchResult result;
  for (int ranks = o.ranks, restarts = 0;; ++restarts) {
    result.generations.push_back(watch(o, start(o, ranks), stops, note));
    const Generation& g = result.generations.back();
    result.exit_code = g.exit_code;
    if (g.exit_code == 0 || stops() > 0) {
      break;
    }
    // Who was killed does not say that the run is wrong; a rank that says so itself does.
    if (g.lost.empty() && g.exit_code != kExitRankLost) {
      break;
    }
    if (restarts == o.most_restarts) {
      note(fmt::format("started {} times; not again", restarts + 1));
      break;
    }
    const int left = ranks - static_cast<int>(g.lost.size());
    ranks = o.keep_ranks || o.hosts > 1 || left == 0 ? ranks : left;
    note(fmt::format("starting again with {} rank{}", ranks * o.hosts, ranks * o.hosts == 1 ? "" : "s"));
  }
  return result;
}

}  // namespace isotone::dist
