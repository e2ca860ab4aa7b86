// isotone devices: what there is to run on, and which operations have kernels.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "backends/cpu/coverage.h"
#include "backends/cpu/isa.h"
#include "base/numerics.h"
#include "base/parallel.h"
#include "cli/commands.h"
#include "serve/loaded_model.h"
#include "tensor/tensor.h"

namespace isotone::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  std::string model;
  bool explain = false;
  bool json = false;
};

/// One step of the model, watched while it is compiled.
std::vector<cpu::OpCoverage> coverage_of_model(const std::string& path) {
  std::vector<cpu::OpCoverage> found;
  set_default_device(cpu::make_watched_device(found));
  const std::unique_ptr<serve::LoadedModel> model = serve::load_model(path, {});
  const std::int32_t ids[] = {0, 1};
  model->model->start()->extend(ids);
  return found;
}

std::string text_of(const cpu::OpCoverage& op, bool of_model) {
  const auto total = op.kernel + op.reference + op.decomposed;
  const char* by = total == 0               ? "has no sample calls"
                   : op.decomposed == total ? "decomposed into others"
                   : op.reference == total  ? "scalar reference"
                   : op.kernel == total     ? "kernel"
                                            : "mixed";
  if (of_model || by != std::string_view("mixed")) {
    return fmt::format("  {:<22} {:>5}  {}\n", op.name, total, by);
  }
  return fmt::format("  {:<22} {:>5}  kernel {}, scalar reference {}, decomposed {}\n", op.name, total, op.kernel,
                     op.reference, op.decomposed);
}

int run(const Flags& f) {
  std::vector<std::string_view> supported;
  for (const cpu::Isa isa : cpu::supported_isas()) {
    supported.push_back(cpu::isa_name(isa));
  }
  const std::string_view chosen = cpu::isa_name(cpu::current_isa());
  const std::string why = cpu::isa_reason();
  std::vector<cpu::OpCoverage> ops;
  if (f.explain) {
    ops = f.model.empty() ? cpu::coverage_of_samples() : coverage_of_model(f.model);
  }
  if (f.json) {
    Json json = {{"devices",
                  {{{"name", "cpu"},
                    {"threads", thread_count()},
                    {"instruction_sets", supported},
                    {"instruction_set", chosen},
                    {"tile_units", cpu::amx_supported()},
                    {"numerics", numerics_profile_name(numerics_profile())},
                    {"why", why}},
                   {{"name", "interpreter"}, {"threads", 1}}}}};
    for (const cpu::OpCoverage& op : ops) {
      json["ops"].push_back(
          {{"name", op.name}, {"kernel", op.kernel}, {"reference", op.reference}, {"decomposed", op.decomposed}});
    }
    fmt::print("{}\n", json.dump(2));
    return 0;
  }
  fmt::print("cpu          {} threads (ISOTONE_THREADS); instruction sets {}; in use: {}: {}\n", thread_count(),
             fmt::join(supported, ", "), chosen, why);
  fmt::print("             numerics profile {} (--numerics); tile units for amx-1: {}\n",
             numerics_profile_name(numerics_profile()),
             cpu::amx_in_use()      ? "yes"
             : cpu::amx_supported() ? "there, but ISOTONE_ISA names another set"
                                    : "none, emulated");
  fmt::print("interpreter  the scalar definition of every bit; slow, for checking\n");
  if (f.explain) {
    fmt::print("\nOn cpu, {}:\n", f.model.empty() ? "each operation's own sample calls (how many, and what runs them)"
                                                  : "one step of " + f.model + " (instructions, and what runs them)");
    for (const cpu::OpCoverage& op : ops) {
      fmt::print("{}", text_of(op, !f.model.empty()));
    }
  }
  return 0;
}

}  // namespace

void add_devices_command(CLI::App& app, int& exit_code) {
  auto f = std::make_shared<Flags>();
  CLI::App* c = app.add_subcommand("devices", "What there is to run on: devices, instruction sets, threads");
  auto* explain =
      c->add_flag("--explain", f->explain, "Also list which operations run by a kernel, and which by their reference");
  c->add_option("MODEL", f->model, "With --explain: the operations of one step of this model")->needs(explain);
  c->add_flag("--json", f->json, "Print one object: devices, and ops with --explain");
  c->footer(
      "Examples:\n"
      "  isotone devices\n"
      "  isotone devices --explain model.gguf\n"
      "  ISOTONE_ISA=avx2 isotone devices");
  c->callback([f, &exit_code] { exit_code = run(*f); });
}

}  // namespace isotone::cli
