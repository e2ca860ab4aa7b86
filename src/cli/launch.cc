// isotone launch: runs a command as several ranks of one machine, and starts again when some are lost.
#include <fmt/format.h>

#include <atomic>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/common_flags.h"
#include "cli/common_signals.h"
#include "dist/launch.h"

namespace isotone::cli {
namespace {

struct Flags {
  dist::LaunchOptions options;
  std::string meet;
  double grace = 10.0;
  bool json = false, quiet = false;
};

/// Sets where the ranks meet from HOST:PORT.
void set_meeting_point(const std::string& text, dist::LaunchOptions& options) {
  const std::size_t colon = text.rfind(':');
  int port = 0;
  if (colon != std::string::npos && CLI::detail::lexical_cast(text.substr(colon + 1), port) && colon > 0 && port > 0 &&
      port < 65536) {
    options.meet_host = text.substr(0, colon);
    options.meet_port = port;
    return;
  }
  throw CLI::ValidationError("--meet", fmt::format("'{}' is not HOST:PORT", text));
}

nlohmann::json to_json(const dist::LaunchResult& r) {
  nlohmann::json starts = nlohmann::json::array();
  for (const dist::Generation& g : r.generations) {
    starts.push_back({{"ranks", g.ranks}, {"lost", g.lost}, {"exit_code", g.exit_code}});
  }
  return {{"exit_code", r.exit_code}, {"starts", starts}};
}

int run(Flags& f) {
  if (!f.meet.empty()) {
    set_meeting_point(f.meet, f.options);
  }
  if (f.options.host >= f.options.hosts) {
    throw CLI::ValidationError("--host", fmt::format("there is no host {} among {}", f.options.host, f.options.hosts));
  }
  if (f.options.hosts > 1 && f.meet.empty()) {
    throw CLI::ValidationError("--hosts", "several hosts need --meet, the address of host 0 and a free port there");
  }
  f.options.program = "/proc/self/exe";
  f.options.grace = std::chrono::milliseconds(static_cast<std::int64_t>(f.grace * 1000.0));
  std::atomic<int> stops = 0;
  const SignalThread signals({SIGINT, SIGTERM}, [&](int) { ++stops; });
  const dist::LaunchResult r = dist::launch(
      f.options, [&] { return stops.load(); },
      [&](const std::string& note) {
        if (!f.quiet) {
          fmt::print(stderr, "launch: {}\n", note);
        }
      });
  if (f.json) {
    fmt::print("{}\n", to_json(r).dump());
  }
  return r.exit_code == 0 || r.exit_code == 2 ? r.exit_code : 1;
}

}  // namespace

void add_launch_command(CLI::App& app, int& exit_code) {
  CLI::App* c = app.add_subcommand("launch", "Run a command as several ranks, and start again when some are lost");
  auto f = std::make_shared<Flags>();
  c->add_option("COMMAND", f->options.arguments, "After --: the command of isotone that each rank runs")->required();
  c->add_option("-n,--ranks", f->options.ranks, "Ranks on this machine; they share its cores")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  c->add_option("--max-restarts", f->options.most_restarts, "Starts after the first, at most")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  c->add_flag("--keep-ranks", f->options.keep_ranks,
              "Start again with as many as before, not with those that are left");
  c->add_option("--grace", f->grace, "Seconds that ranks have to end by themselves once one has failed")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  c->add_option("--logs", f->options.logs, "Folder for what ranks but the first print, a file each");
  c->add_option("--hosts", f->options.hosts, "Machines that take part; each runs this command with its own --host")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  c->add_option("--host", f->options.host, "Number of this machine among --hosts, from 0")->check(CLI::Range(0, 65535));
  c->add_option("--meet", f->meet, "HOST:PORT where the ranks meet: an address of host 0 and a free port there");
  c->add_flag("--quiet", f->quiet, "Say nothing about lost ranks and new starts");
  c->add_flag("--json", f->json, "Report the starts as one JSON object on standard output, after the command's own");
  c->footer(
      "A run goes on from its last checkpoint, with the same bits on any number of ranks.\n"
      "Ctrl-C or SIGTERM is passed on to the ranks. torchrun, mpirun, Slurm and Kubernetes jobs may start ranks "
      "instead;\n"
      "docs/clusters.md shows each.\n"
      "Examples:\n"
      "  isotone launch -n 2 -- train recipes/demo.toml\n"
      "  isotone launch -n 8 --hosts 2 --host 1 --meet 10.0.0.5:29500 -- train recipes/demo.toml");
  c->callback([f, &exit_code] { exit_code = run(*f); });
}

}  // namespace isotone::cli
