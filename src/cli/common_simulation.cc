#include "cli/common_simulation.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace isotone::cli {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

std::string mesh_text(const train::MeshShape& m) {
  std::string out = fmt::format("data {}", m.data);
  const auto add = [&out](const char* name, int n) { out += n > 1 ? fmt::format(" x {} {}", name, n) : ""; };
  add("tensor", m.tensor);
  add("pipeline", m.pipeline);
  add("context", m.context);
  out += m.expert > 1 ? fmt::format(", experts over {}", m.expert) : "";
  return out;
}

}  // namespace

nlohmann::json cost_json(const train::Cost& c) {
  return {{"seconds", c.seconds},
          {"tok_s", c.tokens_a_second},
          {"peak_share", c.peak_share},
          {"parts",
           {{"matmul", c.matmul},
            {"activations", c.activations},
            {"parameters", c.parameters},
            {"update", c.update},
            {"bubble", c.bubble},
            {"data", c.data_messages},
            {"tensor", c.tensor_messages},
            {"context", c.context_messages},
            {"expert", c.expert_messages},
            {"pipeline", c.pipeline_messages}}},
          {"sent_bytes",
           {{"data", c.data_bytes},
            {"tensor", c.tensor_bytes},
            {"context", c.context_bytes},
            {"expert", c.expert_bytes},
            {"pipeline", c.pipeline_bytes}}},
          {"memory_bytes",
           {{"parameters", c.parameter_memory},
            {"optimiser", c.optimiser_memory},
            {"gradients", c.gradient_memory},
            {"activations", c.activation_memory},
            {"total", c.memory()}}}};
}

void show_simulation(const train::Simulation& s, bool json) {
  const train::Cost& c = s.cost;
  const int ranks = s.machines.ranks;
  if (json) {
    nlohmann::json j = cost_json(c);
    j["ranks"] = ranks;
    j["chip"] = s.chip.name;
    j["chip_memory_bytes"] = s.chip.memory;
    fmt::print("{}\n", j.dump());
    return;
  }
  fmt::print("{} x {}: {}\n", ranks, s.chip.name, mesh_text(s.machines.mesh));
  fmt::print("a step {:.4g} s: {:.0f} tok/s, {:.1f} of each chip, {:.1f} % of its peak\n", c.seconds, c.tokens_a_second,
             c.tokens_a_second / ranks, 100 * c.peak_share);
  const auto row = [&](const char* name, double seconds, double bytes) {
    if (seconds > 0 || bytes > 0) {
      fmt::print("  {:<22}{:>10.4g} s{:>6.1f} %{}\n", name, seconds, 100 * seconds / c.seconds,
                 bytes > 0 ? fmt::format("{:>12.4g} GB sent", bytes / 1e9) : "");
    }
  };
  row("matrix products", c.matmul, 0);
  row("activations in memory", c.activations, 0);
  row("parameters in memory", c.parameters, 0);
  row("update", c.update, 0);
  row("pipeline's bubble", c.bubble, 0);
  row("messages: data", c.data_messages, c.data_bytes);
  row("messages: tensor", c.tensor_messages, c.tensor_bytes);
  row("messages: context", c.context_messages, c.context_bytes);
  row("messages: expert", c.expert_messages, c.expert_bytes);
  row("messages: pipeline", c.pipeline_messages, c.pipeline_bytes);
  fmt::print(
      "memory of a rank {:.4g} GB of {:.4g}: parameters {:.4g}, optimiser {:.4g}, gradients {:.4g}, activations "
      "{:.4g}\n",
      c.memory() / 1e9, s.chip.memory / 1e9, c.parameter_memory / 1e9, c.optimiser_memory / 1e9,
      c.gradient_memory / 1e9, c.activation_memory / 1e9);
  if (c.memory() > s.chip.memory) {
    fmt::print("that is more than a rank has\n");
  }
}

void show_published(bool json) {
  nlohmann::json all = nlohmann::json::array();
  if (!json) {
    fmt::print("{:<38}{:>10}{:>11}{:>8}{:>8}{:>11}{:>8}\n", "TorchTitan, H100 (96 GB, 500 W)", "tok/s/GPU", "published",
               "error", "GiB", "published", "error");
  }
  for (const train::PublishedRow& r : train::published_rows()) {
    train::FittedConstants fit = train::fitted_constants();
    fit.link_share = 1;
    const train::Cost c = train::cost_of_step(r.model, train::chip_of(r.chip), r.network, r.mesh, r.work, fit);
    const double tok_s = c.tokens_a_second / r.mesh.ranks(), gib = c.memory() / kGib;
    const double error = tok_s / r.tokens_a_second - 1, memory_error = gib / r.memory_gib - 1;
    if (json) {
      nlohmann::json j = cost_json(c);
      j["name"] = r.name;
      j["predicted"] = tok_s;
      j["published"] = r.tokens_a_second;
      j["error"] = error;
      j["predicted_gib"] = gib;
      j["published_gib"] = r.memory_gib;
      j["memory_error"] = memory_error;
      all.push_back(std::move(j));
    } else {
      fmt::print("{:<38}{:>10.0f}{:>11.0f}{:>+7.0f}%{:>8.1f}{:>11.1f}{:>+7.0f}%\n", r.name, tok_s, r.tokens_a_second,
                 100 * error, gib, r.memory_gib, 100 * memory_error);
    }
  }
  if (json) {
    fmt::print("{}\n", all.dump());
  }
}

}  // namespace isotone::cli
