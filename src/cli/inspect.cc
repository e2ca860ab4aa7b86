// isotone inspect: what is in a model file or folder, and one hash over its tensors.
#include "formats/inspect.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "cli/commands.h"

namespace isotone::cli {
namespace {

struct Flags {
  std::string path;
  bool json = false;
  bool sha256 = false;
};

int run(const Flags& f) {
  if (f.sha256) {
    const std::string hash = sha256_of_tensors(f.path);
    fmt::print("{}\n", f.json ? fmt::format("{{\"sha256\": \"{}\"}}", hash) : hash);
    return 0;
  }
  const Inspection found = describe(f.path);
  fmt::print("{}", f.json ? to_json(found) : to_text(found));
  return 0;
}

}  // namespace

void add_inspect_command(CLI::App& app, int& exit_code) {
  auto f = std::make_shared<Flags>();
  CLI::App* c = app.add_subcommand("inspect", "List the tensors and the configuration of a model file or folder");
  c->add_option("PATH", f->path, "A .safetensors or .gguf file, or a folder of safetensors")->required();
  c->add_flag("--sha256", f->sha256,
              "Print one hash over all tensors in name order: names, dtypes, shapes and bytes, not how they are cut "
              "into files");
  c->add_flag("--json", f->json, "Print one object: path, format, metadata, tensors, parameters, sizes (or sha256)");
  c->footer(
      "Examples:\n"
      "  isotone inspect model.gguf\n"
      "  isotone inspect --json folder | jq .parameters\n"
      "  isotone inspect --sha256 folder");
  c->callback([f, &exit_code] { exit_code = run(*f); });
}

}  // namespace isotone::cli
