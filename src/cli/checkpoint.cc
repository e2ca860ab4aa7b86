// isotone checkpoint: is a checkpoint whole, what is in it, and its model for other programs.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/dtype.h"
#include "cli/commands.h"
#include "cli/common_flags.h"
#include "cli/common_progress.h"
#include "formats/inspect.h"
#include "train/examine.h"
#include "train/export_model.h"

namespace isotone::cli {
namespace {

using nlohmann::json;

struct Flags {
  std::string path, out;
  std::string dtype = "f32";
  std::int64_t shard_bytes = static_cast<std::int64_t>(kDefaultShardBytes);
  bool json = false, quiet = false;
};

int verify(const Flags& f) {
  Progress progress("verifying", "bytes", f.quiet);
  json all = json::array();
  std::size_t damaged = 0;
  for (const std::string& folder : train::checkpoints_at(f.path)) {
    const train::Examined e =
        train::examine_checkpoint(folder, [&](std::uint64_t done, std::uint64_t total) { progress.show(done, total); });
    damaged += e.faults.empty() ? 0 : 1;
    json faults = json::array();
    for (const train::CheckpointFault& fault : e.faults) {
      faults.push_back({{"file", fault.file}, {"tensor", fault.tensor}, {"what", fault.what}});
      if (!f.json) {
        fmt::print(stderr, "isotone: {}\n", fault.text());
      }
    }
    for (const std::string& name : e.unknown) {
      if (!f.json && !f.quiet) {
        fmt::print(stderr, "isotone: {}: the manifest does not name it\n", name);
      }
    }
    if (!f.json && !f.quiet) {
      fmt::print("{}: {}, {} tensors, {} other files, {:.1f} MB\n", folder,
                 e.faults.empty() ? "whole" : fmt::format("damaged ({} faults)", e.faults.size()), e.tensors, e.files,
                 static_cast<double>(e.bytes) / 1e6);
    }
    all.push_back({{"checkpoint", folder},
                   {"whole", e.faults.empty()},
                   {"step", e.step >= 0 ? json(e.step) : json()},
                   {"tensors", e.tensors},
                   {"files", e.files},
                   {"bytes", e.bytes},
                   {"faults", faults},
                   {"unknown", e.unknown}});
  }
  if (f.json) {
    fmt::print("{}\n", json{{"whole", damaged == 0}, {"checkpoints", all}}.dump(-1, ' ', false,
                                                                                json::error_handler_t::replace));
  }
  return damaged == 0 ? 0 : 1;
}

json summary_json(const train::Summary& s) {
  json fields = json::object();
  for (const auto& [key, value] : s.manifest.fields) {
    fields[key] = json::parse(value);
  }
  json earlier = json::array(), tensors = json::array();
  for (const train::EarlierRecipe& e : s.manifest.earlier) {
    earlier.push_back({{"recipe", e.fingerprint}, {"steps", e.steps}});
  }
  for (const train::ListedTensor& t : s.tensors) {
    tensors.push_back({{"name", t.name},
                       {"dtype", dtype_name(t.dtype)},
                       {"shape", t.shape},
                       {"bytes", t.bytes()},
                       {"file", t.file},
                       {"sha256", t.sha256}});
  }
  return {{"checkpoint", s.folder},         {"step", s.manifest.step},
          {"tokens", s.manifest.tokens},    {"numerics", s.manifest.numerics},
          {"profile", s.manifest.profile},  {"recipe", s.manifest.recipe},
          {"recipe_fields", fields},        {"earlier_recipes", earlier},
          {"architecture", s.architecture}, {"parameters", s.parameters},
          {"tensor_bytes", s.tensor_bytes}, {"file_bytes", s.file_bytes},
          {"files", s.manifest.files},      {"tensors", tensors}};
}

int show(const Flags& f) {
  const train::Summary s = train::summarise_checkpoint(train::checkpoints_at(f.path).front());
  if (f.json) {
    fmt::print("{}\n", summary_json(s).dump(-1, ' ', false, json::error_handler_t::replace));
    return 0;
  }
  fmt::print("{}\n  step {}, {} tokens learned\n  numerics contract {}, profile {}\n", s.folder, s.manifest.step,
             s.manifest.tokens, s.manifest.numerics, s.manifest.profile);
  fmt::print("  {}: {} parameters, {} tensors, {:.1f} MB of {:.1f} MB\n  recipe {}\n", s.architecture, s.parameters,
             s.tensors.size(), static_cast<double>(s.tensor_bytes) / 1e6, static_cast<double>(s.file_bytes) / 1e6,
             s.manifest.recipe);
  for (const auto& [key, value] : s.manifest.fields) {
    fmt::print("    {:<26}{}\n", key, value);
  }
  for (const train::EarlierRecipe& e : s.manifest.earlier) {
    fmt::print("  until step {} by the recipe {}\n", e.steps, e.fingerprint);
  }
  return 0;
}

int convert(const Flags& f) {
  const std::string from = train::checkpoints_at(f.path).front();
  Progress progress("converting", "tensors", f.quiet);
  train::ExportOptions options;
  options.dtype = parse_dtype(f.dtype);
  options.max_shard_bytes = static_cast<std::uint64_t>(f.shard_bytes);
  options.progress = [&](std::size_t done, std::size_t total) { progress.show(done, total); };
  train::export_model(from, f.out, options);
  const Inspection written = describe(f.out);
  progress.finish(written.tensors.size());
  if (f.json) {
    fmt::print("{}\n", json{{"checkpoint", from},
                            {"dtype", f.dtype},
                            {"tensors", written.tensors.size()},
                            {"parameters", written.parameters},
                            {"tensor_bytes", written.tensor_bytes},
                            {"sha256", sha256_of_tensors(f.out)}}
                           .dump(-1, ' ', false, json::error_handler_t::replace));
  } else if (!f.quiet) {
    fmt::print("{}: {} tensors of {}, {} parameters, {:.1f} MB\n", f.out, written.tensors.size(), f.dtype,
               written.parameters, static_cast<double>(written.tensor_bytes) / 1e6);
  }
  return 0;
}

CLI::App* add(CLI::App& app, const char* name, const char* what, const std::shared_ptr<Flags>& f,
              int (*run)(const Flags&), int& exit_code) {
  CLI::App* c = app.add_subcommand(name, what);
  c->add_flag("--json", f->json, "Print one object");
  c->callback([f, run, &exit_code] { exit_code = run(*f); });
  return c;
}

}  // namespace

void add_checkpoint_command(CLI::App& app, int& exit_code) {
  auto f = std::make_shared<Flags>();
  CLI::App* c = app.add_subcommand("checkpoint", "Verify, show or convert what training has saved");
  c->require_subcommand(1);
  CLI::App* v = add(*c, "verify", "Compare every tensor and file with its checksum; ends with 1 where one differs", f,
                    verify, exit_code);
  v->add_option("PATH", f->path, "A checkpoint, or the out folder of a run: all of its checkpoints")->required();
  v->add_flag("--quiet", f->quiet, "Say nothing but faults");
  CLI::App* s = add(*c, "show", "Step, recipe, version of the numerics contract, sizes; with --json also every tensor",
                    f, show, exit_code);
  s->add_option("PATH", f->path, "A checkpoint, or the out folder of a run: its newest")->required();
  CLI::App* t = add(*c, "convert", "Write the model as a folder in the Hugging Face layout", f, convert, exit_code);
  t->add_option("CHECKPOINT", f->path, "A checkpoint, or the out folder of a run: its newest")->required();
  t->add_option("OUT", f->out, "The folder to write: new, or empty; nothing is ever overwritten")->required();
  t->add_option("--dtype", f->dtype, "f32, bf16 or f16; rounded once")
      ->check(CLI::IsMember({"f32", "bf16", "f16"}))
      ->capture_default_str();
  t->add_option("--shard-bytes", f->shard_bytes, "Most bytes of tensors in one file of weights")
      ->check(at_least(1))
      ->capture_default_str();
  t->add_flag("--quiet", f->quiet, "No progress");
  c->footer(
      "Examples:\n"
      "  isotone checkpoint verify build/run\n"
      "  isotone checkpoint show build/run --json | jq .step\n"
      "  isotone checkpoint convert build/run/step-000100 my-model --dtype bf16");
}

}  // namespace isotone::cli
