// isotone diff: where two training runs part, and which of them cannot be reproduced.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/common_progress.h"
#include "device/interpreter.h"
#include "train/compare_runs.h"
#include "train/replay.h"

namespace isotone::cli {
namespace {

using nlohmann::json;
using train::OpDifference;
using train::RunFiles;
using train::RunsCompared;

struct Flags {
  std::string a, b;
  bool files_only = false, json = false, quiet = false;
};

/// Who computed a step, or a grain of it.
json worker_of(const RunFiles& run, std::int64_t step, std::int64_t grain) {
  const train::Session* s = train::session_of(run.sessions, step);
  if (s == nullptr) {
    return nullptr;
  }
  if (grain < 0 || run.recipe() == nullptr || run.recipe()->fields.empty()) {
    return {{"ranks", s->ranks()}, {"hosts", s->hosts}};
  }
  const train::Recipe r = train::recipe_of_fields(run.recipe()->fields, run.out);
  const int rank = train::rank_of_grain(grain, r.grains, *s);
  return {{"ranks", s->ranks()}, {"rank", rank}, {"host", s->hosts[static_cast<std::size_t>(rank)]}};
}

std::string worker_text(const json& w) {
  if (w.is_null()) {
    return "by nobody knows whom";
  }
  if (w.contains("rank")) {
    return fmt::format("by rank {} of {} on {}", w["rank"].get<int>(), w["ranks"].get<int>(),
                       w["host"].get<std::string>());
  }
  return fmt::format("by {} ranks on {}", w["ranks"].get<int>(),
                     fmt::join(w["hosts"].get<std::vector<std::string>>(), ", "));
}

json line_json(const train::MetricsLine& m) {
  json j{{"loss", m.loss},
         {"grad_norm", m.grad_norm},
         {"lr", m.lr},
         {"tokens", m.tokens},
         {"batch_sha256", m.batch_sha256}};
  if (m.eval_loss.has_value()) {
    j["eval_loss"] = *m.eval_loss;
  }
  return j;
}

json step_json(const RunsCompared& c) {
  const train::StepDifference& d = *c.step;
  json j{{"step", d.step},
         {"fields", d.fields},
         {"a", line_json(c.a.metrics.at(d.step))},
         {"b", line_json(c.b.metrics.at(d.step))}};
  if (d.grains > 0) {
    j["grain"] = d.first_grain;
    j["grains"] = d.grains;
  }
  const std::int64_t grain = d.grains > 0 ? d.first_grain : -1;
  j["a"]["worker"] = worker_of(c.a, d.step, grain);
  j["b"]["worker"] = worker_of(c.b, d.step, grain);
  return j;
}

json tensor_json(const train::TensorDifference& d) {
  json j{{"step", d.step}, {"tensor", d.name}, {"tensors", d.tensors}, {"of_tensors", d.of_tensors}};
  if (d.element < 0) {
    j["fault"] = d.fault;
  } else {
    j.update({{"element", d.element},
              {"a", d.a},
              {"b", d.b},
              {"ulps", d.ulps},
              {"elements", d.elements},
              {"of_elements", d.of_elements}});
  }
  return j;
}

json op_json(const OpDifference& d) {
  const char* kind = d.kind == OpDifference::Kind::input       ? "input"
                     : d.kind == OpDifference::Kind::operation ? "operation"
                                                               : "value";
  json j{{"kind", kind}, {"at", d.at}, {"of", d.of}, {"op", d.op}, {"text", d.text_a}, {"reads", d.reads}};
  if (d.text_b != d.text_a) {
    j["text_b"] = d.text_b;
  }
  if (d.element >= 0) {
    j.update({{"element", d.element},
              {"elements", d.wrong},
              {"of_elements", d.elements},
              {"a", d.a},
              {"b", d.b},
              {"ulps", d.ulps}});
  }
  return j;
}

json replay_json(const RunsCompared& c, const train::Replayed& r) {
  json j{{"step", r.step}, {"grain", r.grain}, {"operations", r.operations}};
  j["op"] = r.op.has_value() ? op_json(*r.op) : json();
  if (c.recipes.empty()) {
    j["from_step"] = r.from_step;
    j["judged_by"] = r.by_checkpoint ? "checkpoint" : "metrics";
    j["like"] = r.like_a && r.like_b ? "both" : r.like_a ? "a" : r.like_b ? "b" : "neither";
  }
  return j;
}

void say_recipes_and_files(const RunsCompared& c) {
  if (!c.recipes.empty()) {
    fmt::print("recipes: {}\n", c.recipes);
  }
  fmt::print("metrics: {} steps in both{}\n", c.steps.size(),
             c.step.has_value() ? ""
             : c.steps.empty()  ? ""
                                : fmt::format(", equal until step {}", c.steps.back()));
  if (c.step.has_value()) {
    const json j = step_json(c);
    fmt::print("  step {} is the first that differs: {}\n", c.step->step, fmt::join(c.step->fields, ", "));
    if (c.step->grains == 1) {
      fmt::print("  grain {} is the first whose losses differ\n", c.step->first_grain);
    } else if (c.step->grains > 1) {
      fmt::print("  the first grains whose losses differ are among {} to {}\n", c.step->first_grain,
                 c.step->first_grain + c.step->grains - 1);
    }
    for (const char* side : {"a", "b"}) {
      fmt::print("  {}: loss {}, norm {}, computed {}\n", side[0] == 'a' ? c.a.out : c.b.out,
                 j[side]["loss"].get<double>(), j[side]["grad_norm"].get<double>(), worker_text(j[side]["worker"]));
    }
  }
  fmt::print("checkpoints: {} in both{}\n", c.saved.size(),
             c.equal_at.has_value() ? fmt::format(", equal until step {}", *c.equal_at) : "");
  if (c.tensor.has_value()) {
    const train::TensorDifference& d = *c.tensor;
    fmt::print("  step {} is the first that differs, in {} of {} tensors; the first in the model's order: '{}'\n",
               d.step, d.tensors, d.of_tensors, d.name);
    if (d.element < 0) {
      fmt::print("  {}\n", d.fault);
    } else {
      fmt::print("  element {} is {} there and {} here, {} ulp apart; {} of {} elements differ\n", d.element, d.a, d.b,
                 d.ulps, d.elements, d.of_elements);
    }
  }
}

void say_op(const train::Replayed& r, const char* there, const char* here) {
  if (!r.op.has_value()) {
    fmt::print("  grain {}: {} operations, forward and backward, have the same bits {} and {}\n", r.grain, r.operations,
               there, here);
    return;
  }
  const OpDifference& d = *r.op;
  if (d.kind == OpDifference::Kind::input) {
    fmt::print("  grain {}: it begins with other values: {} ({}{})\n", r.grain, d.op, d.text_a,
               d.text_a == d.text_b ? "" : " there, " + d.text_b + " here");
  } else if (d.kind == OpDifference::Kind::operation) {
    fmt::print("  grain {}: operation {} of {} is another one: {} there, {} here\n", r.grain, d.at, d.of, d.text_a,
               d.text_b);
  } else {
    fmt::print("  grain {}: operation {} of {}, {}, is the first with other bits {} than {}\n  {}\n", r.grain, d.at,
               d.of, d.op, there, here, d.text_a);
    if (!d.reads.empty()) {
      fmt::print("  it reads {}\n", fmt::join(d.reads, ", "));
    }
  }
  if (d.element >= 0) {
    fmt::print("  element {} is {} and {}, {} ulp apart; {} of {} elements differ\n", d.element, d.a, d.b, d.ulps,
               d.wrong, d.elements);
  }
}

void say_replay(const RunsCompared& c, const train::Replayed& r) {
  if (!c.recipes.empty()) {
    fmt::print("step {} under both recipes:\n", r.step);
    say_op(r, "there", "here");
    return;
  }
  fmt::print("done again on this machine, {} to step {}:\n",
             r.from_step > 0 ? fmt::format("from the common checkpoint of step {}", r.from_step) : "from the start",
             r.step);
  if (r.like_a != r.like_b) {
    fmt::print("  it comes out as in {}: {} is not reproducible\n", r.like_a ? c.a.out : c.b.out,
               r.like_a ? c.b.out : c.a.out);
  } else {
    fmt::print("  it comes out {}\n", r.like_a ? "as in both: what differs is no part of the step's gradients"
                                               : "otherwise than in both runs: neither is reproducible here");
  }
  say_op(r, "by this machine's kernels", "by the scalar reference");
}

int run(const Flags& f) {
  RunsCompared c = train::compare_runs(f.a, f.b);
  std::optional<train::Replayed> again;
  if (!f.json) {
    say_recipes_and_files(c);
  }
  if (!c.same() && !f.files_only) {
    Progress progress("comparing", "operations", f.quiet || f.json);
    train::ReplayOptions options;
    options.reference = device::make_interpreter();
    options.on_operation = [&](std::size_t done, std::size_t total) { progress.show(done, total); };
    try {
      again = train::replay(c, options);
    } catch (const Error& e) {
      c.notes.push_back(fmt::format("the steps could not be done again: {}", e.what()));
    }
  }
  if (f.json) {
    json j{{"same", c.same()},
           {"a", c.a.out},
           {"b", c.b.out},
           {"recipes", c.recipes},
           {"steps", c.steps},
           {"saved", c.saved},
           {"step", c.step.has_value() ? step_json(c) : json()},
           {"notes", c.notes},
           {"equal_at", c.equal_at.has_value() ? json(*c.equal_at) : json()},
           {"tensor", c.tensor.has_value() ? tensor_json(*c.tensor) : json()},
           {"replay", again.has_value() ? replay_json(c, *again) : json()}};
    fmt::print("{}\n", j.dump(-1, ' ', false, json::error_handler_t::replace));
  } else {
    if (again.has_value()) {
      say_replay(c, *again);
    }
    for (const std::string& note : c.notes) {
      fmt::print("{}\n", note);
    }
    fmt::print("{}\n", c.same() ? "no difference in what both have" : "the runs differ");
  }
  return c.same() ? 0 : 1;
}

}  // namespace

void add_diff_command(CLI::App& app, int& exit_code) {
  auto f = std::make_shared<Flags>();
  CLI::App* c = app.add_subcommand("diff", "Say where two training runs part: step, grain, rank, tensor, operation");
  c->add_option("RUN_A", f->a, "The out folder of a run")->required();
  c->add_option("RUN_B", f->b, "The out folder of another")->required();
  c->add_flag("--files-only", f->files_only, "Compare what the runs left; do no step again");
  c->add_flag("--quiet", f->quiet, "No progress");
  c->add_flag("--json", f->json, "Print one object");
  c->footer(
      "Ends with 0 where all that both have is equal, with 1 where something differs.\n"
      "Examples:\n"
      "  isotone diff build/run-1 build/run-2\n"
      "  isotone diff build/run-1 build/run-2 --files-only --json | jq .step");
  c->callback([f, &exit_code] { exit_code = run(*f); });
}

}  // namespace isotone::cli
