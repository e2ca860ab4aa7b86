// isotone data: the data of a recipe on its own: built into shards, hashed, shown as text, compared.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/common_flags.h"
#include "dist/silent_rank.h"
#include "train/data_report.h"

namespace isotone::cli {
namespace {

using nlohmann::json;

struct Flags {
  std::string recipe, other, out;
  std::int64_t batch = -1;
  bool force = false, quiet = false, json = false;
};

/// A recipe and its data, opened.
struct Opened {
  train::Recipe recipe;
  train::Setup setup;
  train::RunData data;
};

Opened open(const Flags& f) {
  Opened o{train::read_recipe(f.recipe), {}, {}};
  o.setup = train::open_setup(o.recipe);
  dist::SilentRank alone;
  o.data =
      train::open_data(o.recipe, o.setup, alone, [](const std::string& note) { fmt::print(stderr, "{}\n", note); });
  return o;
}

std::string dumped(const json& j) {
  return j.dump(-1, ' ', false, json::error_handler_t::replace);
}

int run_build(const Flags& f) {
  train::Recipe recipe = train::read_recipe(f.recipe);
  if (!f.out.empty()) {
    recipe.built = f.out;
  }
  const std::string folder = recipe.built_folder();
  const train::Setup setup = train::open_setup(recipe);
  const train::BuildResult built = train::build_data(recipe, setup, f.force);
  if (f.json) {
    json j{{"folder", folder}, {"built", !built.why.empty()}, {"why", built.why}};
    for (const data::BuiltSource& s : built.index.sources) {
      j["sources"].push_back({{"name", s.name},
                              {"files", s.files.size()},
                              {"documents", s.documents},
                              {"tokens", s.tokens},
                              {"grains", s.grains},
                              {"shards", s.shards.size()},
                              {"sha256", s.sha256}});
    }
    fmt::print("{}\n", dumped(j));
    return 0;
  }
  if (f.quiet) {
    return 0;
  }
  fmt::print("{}: {}\n", folder, built.why.empty() ? "up to date" : fmt::format("built ({})", built.why));
  for (const data::BuiltSource& s : built.index.sources) {
    fmt::print("  {:<12} {} documents, {} tokens in {} grains of {}, {} shards\n", s.name.empty() ? "data" : s.name,
               s.documents, s.tokens, s.grains, built.index.grain_tokens, s.shards.size());
  }
  return 0;
}

int run_hash(const Flags& f) {
  const Opened o = open(f);
  train::verify_data(o.data);
  const std::string whole = train::data_sha256(o.recipe, o.data.contents);
  const std::string batch = f.batch < 0 ? "" : train::hash_batch(o.recipe, o.data, f.batch);
  if (!f.json) {
    fmt::print("{}\n", f.batch < 0 ? whole : batch);
    return 0;
  }
  json j{{"sha256", whole}, {"recipe", o.recipe.fingerprint()}};
  for (const auto& [key, value] : o.data.contents) {
    j["contents"][key] = json::parse(value);
  }
  if (f.batch >= 0) {
    j["batch"] = f.batch;
    j["batch_sha256"] = batch;
  }
  fmt::print("{}\n", dumped(j));
  return 0;
}

int run_show(const Flags& f) {
  const Opened o = open(f);
  const std::int64_t number = std::max<std::int64_t>(f.batch, 0);
  const std::vector<train::ShownDocument> all = train::show_batch(o.recipe, o.setup, o.data, number);
  if (f.json) {
    json j{{"batch", number}, {"batch_sha256", train::hash_batch(o.recipe, o.data, number)}};
    for (const train::ShownDocument& d : all) {
      j["documents"].push_back({{"grain", d.grain},
                                {"source", d.source},
                                {"source_grain", d.source_grain},
                                {"epoch", d.epoch},
                                {"start", d.start},
                                {"tokens", d.tokens},
                                {"learned", d.learned},
                                {"text", d.text}});
    }
    fmt::print("{}\n", dumped(j));
    return 0;
  }
  for (const train::ShownDocument& d : all) {
    fmt::print("--- batch {}, grain {} ({}grain {} of epoch {}), tokens {} to {}, {} learned\n{}\n", number, d.grain,
               d.source.empty() ? "" : d.source + ", ", d.source_grain, d.epoch, d.start, d.start + d.tokens, d.learned,
               d.text);
  }
  return 0;
}

int run_diff(const Flags& f) {
  const std::vector<train::FieldDifference> all =
      train::field_differences(train::data_fields_of(f.recipe), train::data_fields_of(f.other));
  if (f.json) {
    json j{{"same", all.empty()}, {"differences", json::array()}};
    for (const train::FieldDifference& d : all) {
      j["differences"].push_back({{"key", d.key},
                                  {"a", d.a.empty() ? json() : json::parse(d.a)},
                                  {"b", d.b.empty() ? json() : json::parse(d.b)}});
    }
    fmt::print("{}\n", dumped(j));
  } else {
    for (const train::FieldDifference& d : all) {
      fmt::print("{}\n  {}: {}\n  {}: {}\n", d.key, f.recipe, d.a.empty() ? "nothing" : d.a, f.other,
                 d.b.empty() ? "nothing" : d.b);
    }
  }
  return all.empty() ? 0 : 1;
}

CLI::App* subcommand(CLI::App& app, const std::string& name, const std::string& about, const std::shared_ptr<Flags>& f,
                     int& exit_code, int (*run)(const Flags&)) {
  CLI::App* c = app.add_subcommand(name, about);
  c->add_option("RECIPE", f->recipe, "The recipe, a TOML file")->required();
  c->add_flag("--json", f->json, "Print one object");
  c->callback([f, &exit_code, run] { exit_code = run(*f); });
  return c;
}

}  // namespace

void add_data_command(CLI::App& app, int& exit_code) {
  CLI::App* c = app.add_subcommand("data", "Build, hash, show and compare what a recipe trains on");
  c->require_subcommand(1);
  auto f = std::make_shared<Flags>();
  CLI::App* build = subcommand(*c, "build", "Tokenize the sources once, into a folder of checksummed shards", f,
                               exit_code, run_build);
  build->add_option("--out", f->out, "The folder, in place of data.built (default: data in the recipe's out folder)");
  build->add_flag("--force", f->force, "Build anew what is up to date, too");
  build->add_flag("--quiet", f->quiet, "No report");
  const CLI::Range number(std::int64_t{0}, std::int64_t{1} << 40);
  CLI::App* hash =
      subcommand(*c, "hash", "One hash over tokens, order, packing and batch size", f, exit_code, run_hash);
  hash->add_option("--batch", f->batch, "Of this global batch alone; 0 is the first step's")->check(number);
  CLI::App* show = subcommand(*c, "show", "The documents of a global batch as text", f, exit_code, run_show);
  show->add_option("--batch", f->batch, "Which one; 0, the default, is the first step's")->check(number);
  CLI::App* diff = subcommand(
      *c, "diff", "What of the data differs between two recipes or checkpoints: exit code 1 where something does", f,
      exit_code, run_diff);
  diff->add_option("OTHER", f->other, "A recipe or a checkpoint's folder; RECIPE may be one too")->required();
  c->footer(
      "Examples:\n"
      "  isotone data build recipes/demo.toml --out build/demo-data\n"
      "  isotone data hash recipes/demo.toml --batch 3\n"
      "  isotone data show recipes/demo.toml --batch 3\n"
      "  isotone data diff recipes/demo.toml build/demo-run/step-000016");
}

}  // namespace isotone::cli
