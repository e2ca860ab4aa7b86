// isotone bench: speed of the two hot paths alone, for `make bench` and for tuning. Figures, never tests.
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "backends/cpu/isa.h"
#include "backends/cpu/kernels/contract.h"
#include "base/half.h"
#include "base/numerics.h"
#include "base/philox.h"
#include "cli/commands.h"
#include "cli/common_simulation.h"
#include "dist/environment.h"
#include "models/model.h"
#include "train/benchmark.h"

namespace isotone::cli {
namespace {

struct Flags {
  train::BenchmarkOptions train;
  std::string dtype = "f32";
  std::int64_t m = 512, n = 1536, k = 576;
  std::int64_t ranks = 0;
  std::vector<double> fitted, machine;
  bool json = false;
};

DType dtype_of(const Flags& f) {
  return f.dtype == "f32" ? DType::f32 : DType::bf16;
}

/// Most memory this process ever held, bytes.
std::size_t peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::size_t>(usage.ru_maxrss) * 1024;
}

int run_train(Flags& f) {
  f.train.dtype = dtype_of(f);
  // As a launcher says: several ranks where there are several of this process.
  const auto environment = dist::rank_environment([](const char* name) { return std::getenv(name); });
  const auto ranks = dist::join_world(environment, std::chrono::seconds(60));
  const train::BenchmarkResult r = train::benchmark_training(f.train, *ranks);
  if (environment.rank != 0) {
    return 0;
  }
  if (f.json) {
    const nlohmann::json j{{"tok_s", r.tok_s},           {"seconds", r.seconds},
                           {"peak_bytes", peak_bytes()}, {"planned_bytes", r.planned_bytes},
                           {"sent_bytes", r.sent_bytes}, {"loss", r.loss}};
    fmt::print("{}\n", j.dump());
  } else {
    fmt::print("{} {}x{} {}: {:.1f} tok/s, {:.3f} s a step, peak {:.2f} GB\n", f.train.size, f.train.batch, f.train.seq,
               f.dtype, r.tok_s, r.seconds, static_cast<double>(peak_bytes()) / 1e9);
  }
  return 0;
}

std::vector<std::byte> random_matrix(std::int64_t elements, DType dtype, std::string_view name) {
  std::vector<std::byte> out(storage_bytes(dtype, elements));
  const Philox philox(1, name);
  for (std::int64_t i = 0; i < elements; ++i) {
    const float x = philox.uniform(static_cast<std::uint64_t>(i)) - 0.5F;
    if (dtype == DType::f32) {
      reinterpret_cast<float*>(out.data())[i] = x;
    } else {
      reinterpret_cast<bf16*>(out.data())[i] = bf16(x);
    }
  }
  return out;
}

/// What a contraction of this dtype runs on.
std::string_view units_of(DType dtype) {
  const bool tiles = dtype == DType::bf16 && numerics_profile() == NumericsProfile::amx_1 && cpu::amx_in_use();
  return tiles ? "tile units" : cpu::isa_name(cpu::current_isa());
}

/// The fastest call within about 0.3 s, as the peers of `make bench` are measured.
int run_contraction(const Flags& f) {
  const DType dtype = dtype_of(f);
  const std::vector<std::byte> a = random_matrix(f.m * f.k, dtype, "a"), w = random_matrix(f.n * f.k, dtype, "w");
  std::vector<std::byte> c(storage_bytes(dtype, f.m * f.n));
  const cpu::PackedWeight packed = cpu::pack_weight({w.data(), dtype, 0, 0, f.k, 1}, f.n, f.k);
  const cpu::PackedContraction call{f.m, a.data(), dtype, f.k, 1, c.data(), dtype, f.n, 1};
  const auto timed = [&] {
    const auto start = std::chrono::steady_clock::now();
    cpu::contract_packed(call, packed);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  timed();
  timed();
  double best = 1e9, total = 0.0;
  while (total < 0.3) {
    const double t = timed();
    best = std::min(best, t);
    total += t;
  }
  const double gflops =
      2.0 * static_cast<double>(f.m) * static_cast<double>(f.n) * static_cast<double>(f.k) / best / 1e9;
  if (f.json) {
    const nlohmann::json j{{"gflops", gflops}, {"seconds", best}, {"isa", units_of(dtype)}};
    fmt::print("{}\n", j.dump());
  } else {
    fmt::print("{}x{}x{} {}: {:.1f} GFLOP/s, {:.3g} s, {}\n", f.m, f.n, f.k, f.dtype, gflops, best, units_of(dtype));
  }
  return 0;
}

int run_simulate(const Flags& f) {
  if (f.ranks == 0) {
    show_published(f.json);
    return 0;
  }
  train::Chip chip = f.machine.empty() ? train::measure_machine() : train::Chip{};
  if (!f.machine.empty()) {
    chip.matmul = chip.bf16 = chip.attention = f.machine[0];
    chip.memory_bandwidth = chip.link = f.machine[1];
  }
  const double whole_matmul = chip.matmul, whole_bandwidth = chip.memory_bandwidth;
  train::share_machine(chip, static_cast<int>(f.ranks));
  const train::FittedConstants fit =
      f.fitted.empty() ? train::fitted_constants() : train::FittedConstants{f.fitted[0], f.fitted[1], f.fitted[2]};
  train::MeshShape mesh;
  mesh.data = static_cast<int>(f.ranks);
  train::Workload w;
  w.sequences = static_cast<double>(f.train.batch);
  w.tokens = static_cast<double>(f.train.seq);
  w.value_bytes = 4;
  w.mode = train::DataMode::zero2;
  w.recompute = f.train.recompute;
  const train::Cost cost =
      train::cost_of_step(train::shape_of(train::benchmark_config(f.train)), chip, 0, mesh, w, fit);
  nlohmann::json j = cost_json(cost);
  j["matmul_flops"] = whole_matmul;
  j["memory_bandwidth"] = whole_bandwidth;
  if (f.json) {
    fmt::print("{}\n", j.dump());
  } else {
    fmt::print("{} x here, {} {}x{}: {:.3f} s a step\n", f.ranks, f.train.size, f.train.batch, f.train.seq,
               cost.seconds);
  }
  return 0;
}

void add_common(CLI::App& c, Flags& f) {
  c.add_option("--dtype", f.dtype, "f32 or bf16")->check(CLI::IsMember({"f32", "bf16"}))->capture_default_str();
  c.add_flag("--json", f.json, "Print one object");
}

}  // namespace

void add_bench_command(CLI::App& app, int& exit_code) {
  auto f = std::make_shared<Flags>();
  CLI::App* c = app.add_subcommand("bench", "Measure a training step or a contraction alone");
  c->require_subcommand(1);
  const CLI::Range size(std::int64_t{1}, std::int64_t{1} << 20);
  CLI::App* t = c->add_subcommand("train", "Training steps of a model with random weights: tok_s, seconds, peak_bytes");
  t->add_option("--size", f->train.size, "Shapes of SmolLM2: 135m or 360m; or small, tiny")->capture_default_str();
  t->add_option("--batch", f->train.batch, "Grains a step")->check(size)->capture_default_str();
  t->add_option("--seq", f->train.seq, "Tokens a grain, a multiple of 64")->check(size)->capture_default_str();
  t->add_option("--steps", f->train.steps, "Timed steps, after one that is not; the median counts")
      ->check(size)
      ->capture_default_str();
  t->add_option("--recompute", f->train.recompute, "none, light, mlp or layer, as in a recipe")
      ->check(CLI::IsMember(models::recompute_names()))
      ->capture_default_str();
  t->add_option("--data", f->train.data_mode, "Of several ranks: what is cut among them, as in a recipe")
      ->check(CLI::IsMember(train::data_mode_names()))
      ->capture_default_str();
  add_common(*t, *f);
  t->callback([f, &exit_code] { exit_code = run_train(*f); });
  CLI::App* g = c->add_subcommand("contraction", "Rows [m, k] times a packed weight [n, k]: gflops, seconds");
  g->add_option("--m", f->m, "Rows")->check(size)->capture_default_str();
  g->add_option("--n", f->n, "Outputs")->check(size)->capture_default_str();
  g->add_option("--k", f->k, "Features that are summed")->check(size)->capture_default_str();
  add_common(*g, *f);
  g->callback([f, &exit_code] { exit_code = run_contraction(*f); });
  CLI::App* s =
      c->add_subcommand("simulate", "The cost model: published figures, or a step of bench train on this machine");
  s->add_option("--ranks", f->ranks, "Ranks on this machine for which a step is predicted; without it, published rows")
      ->check(size);
  s->add_option("--size", f->train.size, "As of bench train")->capture_default_str();
  s->add_option("--batch", f->train.batch, "Grains a step")->check(size)->capture_default_str();
  s->add_option("--seq", f->train.seq, "Tokens a grain")->check(size)->capture_default_str();
  s->add_option("--fitted", f->fitted,
                "Passes over activations, over parameters, share of the link, instead of those built in")
      ->expected(3);
  s->add_option("--machine", f->machine, "Operations, bytes a second of this machine, instead of measuring them")
      ->expected(2);
  s->add_flag("--json", f->json, "Print one object");
  s->callback([f, &exit_code] { exit_code = run_simulate(*f); });
  c->footer(
      "Examples:\n"
      "  isotone bench train --size 135m --batch 1 --seq 512 --dtype bf16 --json\n"
      "  isotone bench simulate\n"
      "  isotone bench contraction --m 504 --n 1536 --k 576 --dtype f32");
}

}  // namespace isotone::cli
