// isotone train: runs a recipe, or says what it would take.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <stop_token>

#include "backends/cpu/other_kernels.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/common_flags.h"
#include "cli/common_signals.h"
#include "cli/common_simulation.h"
#include "dist/environment.h"
#include "dist/launch.h"
#include "train/run.h"

namespace isotone::cli {
namespace {

struct Flags {
  std::string recipe, out, audit;
  std::optional<std::string> simulate;
  std::int64_t steps = 0;
  train::RunOptions options;
  int world = 1;
  double timeout = 30.0;
  bool plan = false, quiet = false, json = false;
};

/// SIGINT and SIGTERM become a stop request.
class SaveAndStop {
 public:
  SaveAndStop()
      : signals_({SIGINT, SIGTERM}, [this](int) {
          if (source_.stop_requested()) {
            _exit(130);  // asked twice: the last checkpoint is whole
          }
          source_.request_stop();
        }) {}
  [[nodiscard]] std::stop_token token() const { return source_.get_token(); }

 private:
  std::stop_source source_;
  SignalThread signals_;
};

std::string duration(double seconds) {
  const auto s = static_cast<std::int64_t>(seconds + 0.5);
  return s >= 3600 ? fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
                   : fmt::format("{}:{:02}", s / 60, s % 60);
}

std::string step_line(const train::StepReport& s) {
  std::string line = fmt::format(
      "step {}/{}  loss {:.4f}  norm {:.3f}  lr {:.2e}  {:.0f} tok/s  {:.0f} % of peak  {:.0f} % comm  {:.2f} GB  {} "
      "left",
      s.step, s.steps, s.loss, s.grad_norm, s.lr, s.tok_s, 100.0 * s.cost.peak_share,
      100.0 * s.cost.communication_share, static_cast<double>(s.cost.resident_bytes) / 1e9, duration(s.seconds_left));
  return s.eval_loss >= 0.0 ? line + fmt::format("  validation {:.4f}", s.eval_loss) : line;
}

void show_step(const train::StepReport& s, bool terminal) {
  if (!terminal) {
    fmt::print(stderr, "{}\n", step_line(s));
    return;
  }
  constexpr int kBar = 24;
  const int full = static_cast<int>(kBar * s.step / s.steps);
  fmt::print(stderr, "\r\033[K[{}{}] {}{}", std::string(static_cast<std::size_t>(full), '#'),
             std::string(static_cast<std::size_t>(kBar - full), '.'), step_line(s),
             s.eval_loss >= 0.0 || s.step == s.steps ? "\n" : "");
  std::fflush(stderr);
}

nlohmann::json plan_json(const train::RankPlan& p) {
  return {{"first_rank", p.first},
          {"last_rank", p.last},
          {"grains_a_round", p.grains},
          {"nodes", p.nodes},
          {"micro_grains", p.micro_grains},
          {"parameters_bytes", p.parameters},
          {"optimiser_bytes", p.optimiser},
          {"gradients_bytes", p.gradients},
          {"activations_bytes", p.activations},
          {"total_bytes", p.total()},
          {"sent_bytes_a_step", p.sent_a_step}};
}

int show_plan(const train::Recipe& recipe, const Flags& f) {
  const train::RunPlan plan = train::plan_run(recipe, f.options, f.world);
  if (f.json) {
    nlohmann::json j = plan_json(plan.most());
    j["grains"] = plan.grains;
    j["tokens_a_step"] = plan.tokens_a_step;
    j["world"] = plan.world;
    for (const train::RankPlan& p : plan.ranks) {
      j["ranks"].push_back(plan_json(p));
    }
    fmt::print("{}\n", j.dump());
    return 0;
  }
  const auto row = [](const char* name, std::size_t bytes) {
    fmt::print("{:<14}{:>10.1f} MB\n", name, static_cast<double>(bytes) / 1e6);
  };
  if (plan.world == 1) {
    const train::RankPlan& p = plan.most();
    fmt::print("{} tokens a step in {} grains, {} at once\n", plan.tokens_a_step, plan.grains, p.micro_grains);
    row("parameters", p.parameters);
    row("optimiser", p.optimiser);
    row("gradients", p.gradients);
    row("activations", p.activations);
    row("in all", p.total());
    return 0;
  }
  fmt::print("{} tokens a step in {} grains on {} ranks, data = \"{}\"; MB of each rank\n", plan.tokens_a_step,
             plan.grains, plan.world, recipe.data_mode);
  fmt::print("{:<9}{:>8}{:>7}{:>12}{:>11}{:>11}{:>13}{:>10}{:>13}\n", "ranks", "grains", "nodes", "parameters",
             "optimiser", "gradients", "activations", "in all", "sent a step");
  const auto mb = [](std::size_t bytes) { return static_cast<double>(bytes) / 1e6; };
  for (const train::RankPlan& p : plan.ranks) {
    fmt::print("{:<9}{:>8}{:>7}{:>12.1f}{:>11.1f}{:>11.1f}{:>13.1f}{:>10.1f}{:>13.1f}\n",
               p.first == p.last ? fmt::format("{}", p.first) : fmt::format("{}-{}", p.first, p.last), p.grains,
               p.nodes, mb(p.parameters), mb(p.optimiser), mb(p.gradients), mb(p.activations), mb(p.total()),
               mb(p.sent_a_step));
  }
  return 0;
}

int run_on(dist::Communicator& ranks, const train::Recipe& recipe, const Flags& f, const std::stop_token& stop) {
  const bool terminal = isatty(STDERR_FILENO) != 0;
  train::RunObserver observer;
  observer.on_step = [&](const train::StepReport& s) {
    if (!f.quiet) {
      show_step(s, terminal);
    }
  };
  observer.on_note = [&](const std::string& note) {
    if (!f.quiet) {
      fmt::print(stderr, "{}{}\n", terminal ? "\r\033[K" : "", note);
    }
  };
  const train::RunResult r = train::run(recipe, f.options, observer, stop, ranks);
  if (ranks.rank() > 0) {
    return 0;
  }
  if (f.json) {
    const nlohmann::json j{
        {"step", r.step},         {"loss", r.steps_done > 0 ? nlohmann::json(r.loss) : nlohmann::json()},
        {"finished", r.finished}, {"checkpoint", r.checkpoint},
        {"curve", r.curve},       {"planned_peak_bytes", r.planned_peak_bytes},
        {"audited", r.audited}};
    fmt::print("{}\n", j.dump());
  } else if (!f.quiet) {
    fmt::print("{} at step {}: {}checkpoint {}, curve {}\n", r.finished ? "finished" : "stopped", r.step,
               r.steps_done > 0 ? fmt::format("loss {:.4f}, ", r.loss) : "nothing was left to do, ", r.checkpoint,
               r.curve);
    if (!f.audit.empty()) {
      fmt::print("audit: {} grains computed a second time, with equal bits\n", r.audited);
    }
  }
  return 0;
}

int run(Flags& f) {
  train::Recipe recipe = train::read_recipe(f.recipe);
  if (!f.out.empty()) {
    recipe.out = f.out;
  }
  if (f.steps > 0) {
    recipe.steps = f.steps;
    require(recipe.warmup < recipe.steps, "--steps {} is not above the recipe's schedule.warmup of {}", f.steps,
            recipe.warmup);
  }
  if (f.plan) {
    return show_plan(recipe, f);
  }
  if (f.simulate.has_value()) {
    show_simulation(train::simulate(recipe, f.options, *f.simulate), f.json);
    return 0;
  }
  if (!f.audit.empty()) {
    f.options.audit = {train::parse_share(f.audit), cpu::with_other_kernels};
  }
  const SaveAndStop signals;
  const dist::RankEnvironment place = dist::rank_environment([](const char* name) { return std::getenv(name); });
  f.quiet = f.quiet || place.rank > 0;
  f.json = f.json && place.rank == 0;
  try {
    const auto ranks =
        dist::join_world(place, std::chrono::milliseconds(static_cast<std::int64_t>(f.timeout * 1000.0)));
    return run_on(*ranks, recipe, f, signals.token());
  } catch (const dist::RankLost& e) {
    fmt::print(stderr, "isotone: error: {}\n", e.what());
    return dist::kExitRankLost;
  } catch (const Error& e) {
    throw place.size > 1 ? e.in(fmt::format("rank {} of {}", place.rank, place.size)) : e;
  }
}

}  // namespace

void add_train_command(CLI::App& app, int& exit_code) {
  CLI::App* c = app.add_subcommand("train", "Pretrain or fine-tune a model by a recipe");
  auto f = std::make_shared<Flags>();
  c->add_option("recipe", f->recipe, "The recipe, a TOML file (recipes/ has some to start from)")->required();
  c->add_option("--out", f->out, "Folder of checkpoints and metrics, in place of the recipe's train.out");
  c->add_option("--steps", f->steps, "Number of steps, in place of the recipe's train.steps")->check(at_least(1));
  c->add_option("--stop-after", f->options.stop_after, "Save and stop after this many steps of this call")
      ->check(at_least(1));
  c->add_option("--resume", f->options.resume,
                "auto (the newest good checkpoint in the out folder), never, or a checkpoint's path")
      ->capture_default_str();
  c->add_option("--accept-recipe", f->options.accept_recipe,
                "Go on from a checkpoint of the recipe with this fingerprint, though it is another one");
  c->add_option("--micro-grains", f->options.micro_grains, "Most grains computed at once: less memory, the same bits")
      ->check(at_least(1));
  c->add_option("--timeout", f->timeout, "Seconds that a rank waits for another before it calls it lost")
      ->check(CLI::Range(0.1, 1e6))
      ->capture_default_str();
  c->add_option("--timeline", f->options.timeline,
                "Write a timeline of all ranks, for ui.perfetto.dev, into this file");
  c->add_option("--tensorboard", f->options.tensorboard, "Folder of event files, in place of the recipe's");
  c->add_option("--prometheus", f->options.prometheus,
                "File of figures, replaced at each step, in place of the recipe's");
  c->add_option("--audit", f->audit,
                "Share of all grains that another worker computes again and compares, such as 1/100");
  c->add_option("--world", f->world, "With --plan: what each of this many ranks would take")->check(at_least(1));
  c->add_option("--simulate", f->simulate,
                "Say what a step would take on machines such as \"1024 x H100, 400 Gb/s, tensor 8\", and run nothing");
  c->add_flag("--plan", f->plan, "Say what memory the run takes, and run nothing");
  c->add_flag("--quiet", f->quiet, "No progress");
  c->add_flag("--json", f->json, "Report as one JSON object on standard output");
  c->footer(
      "Ctrl-C or SIGTERM finishes the step, saves and stops; the same command goes on to the same bits.\n"
      "It is one rank of several where RANK and WORLD_SIZE, or Open MPI's or Slurm's names, are in the environment:\n"
      "isotone launch sets them. A rank that loses the others ends with exit code 75.\n"
      "Examples:\n"
      "  isotone train recipes/demo.toml\n"
      "  isotone train recipes/demo.toml --plan\n"
      "  isotone train recipes/demo.toml --simulate \"8 x H100\"\n"
      "  isotone train recipes/demo.toml --stop-after 5 && isotone train recipes/demo.toml");
  c->callback([f, &exit_code] { exit_code = run(*f); });
}

}  // namespace isotone::cli
