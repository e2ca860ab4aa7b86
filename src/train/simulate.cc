#include "train/simulate.h"

#include <charconv>
#include <functional>
#include <map>

#include "base/error.h"
#include "train/setup.h"

namespace isotone::train {
namespace {

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(' ');
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

/// "8 x H100" at the first x that stands alone: the text before and after `word`.
std::pair<std::string, std::string> around(const std::string& text, const std::string& word) {
  const std::size_t at = text.find(word);
  return at == std::string::npos ? std::pair{trimmed(text), std::string()}
                                 : std::pair{trimmed(text.substr(0, at)), trimmed(text.substr(at + word.size()))};
}

double number(const std::string& text, const std::string& part, double low, double high) {
  double value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(fault == std::errc() && end == text.data() + text.size() && low <= value && value <= high,
          "--simulate: '{}': a number from {:g} to {:g} is meant, not '{}'", part, low, high, text);
  return value;
}

int whole(const std::string& text, const std::string& part, int low, int high) {
  const double value = number(text, part, low, high);
  const int n = static_cast<int>(value);
  require(n == value, "--simulate: '{}': a whole number is meant, not '{}'", part, text);
  return n;
}

constexpr int kMostRanks = 1 << 20;

/// One part after the first.
void read_part(Machines& m, const std::string& part) {
  const std::map<std::string, int*> axes{{"tensor", &m.mesh.tensor},         {"pipeline", &m.mesh.pipeline},
                                         {"context", &m.mesh.context},       {"expert", &m.mesh.expert},
                                         {"interleave", &m.mesh.interleave}, {"microbatches", &m.mesh.microbatches}};
  if (part == "fp8") {
    m.fp8 = true;
    return;
  }
  if (part == "no overlap") {
    m.overlap = false;
    return;
  }
  const auto [first, second] = around(part, " ");
  if (second == "Gb/s" || second == "GB/s") {
    m.network = number(first, part, 1e-3, 1e6) * (second == "Gb/s" ? 1e9 / 8 : 1e9);
    return;
  }
  const auto axis = axes.find(first);
  if (axis == axes.end()) {
    std::vector<std::string> names;
    names.reserve(axes.size());
    for (const auto& [name, value] : axes) {
      names.push_back(name + " N");
    }
    fail("--simulate: '{}' is not understood; after the chips come N Gb/s or N GB/s, {}, fp8, no overlap", part,
         fmt::join(names, ", "));
  }
  *axis->second = whole(second, part, 1, kMostRanks);
}

}  // namespace

Machines parse_machines(const std::string& text) {
  Machines m;
  bool first = true;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string part = trimmed(text.substr(at, end - at));
    at = end + 1;
    if (first) {
      const auto [count, chip] = around(part, " x ");
      require(!chip.empty(), "--simulate: '{}' does not begin like \"8 x H100\"", text);
      m.ranks = whole(count, part, 1, kMostRanks);
      m.chip = chip == "here" ? chip : chip_of(chip).name;
      first = false;
    } else {
      read_part(m, part);
    }
  }
  const double others = static_cast<double>(m.mesh.tensor) * m.mesh.pipeline * m.mesh.context;
  require(others <= m.ranks && m.ranks % static_cast<int>(others) == 0,
          "--simulate: {} ranks cannot be shared out among tensor {} x pipeline {} x context {}", m.ranks,
          m.mesh.tensor, m.mesh.pipeline, m.mesh.context);
  m.mesh.data = m.ranks / static_cast<int>(others);
  require(m.chip == "here" || m.network > 0 || m.ranks <= chip_of(m.chip).chips_a_node,
          "--simulate: {} x {} are more than a node of {}; say the network between nodes (\"400 Gb/s\")", m.ranks,
          m.chip, m.chip == "here" ? 1 : chip_of(m.chip).chips_a_node);
  return m;
}

Simulation simulate(const Recipe& recipe, const RunOptions& options, const std::string& text) {
  Simulation s{parse_machines(text), {}, {}};
  const bool here = s.machines.chip == "here";
  const Setup setup = open_setup(recipe);
  Workload w;
  w.sequences = static_cast<double>(recipe.rounds * recipe.grains);
  w.tokens = static_cast<double>(recipe.grain_tokens);
  w.at_once = static_cast<double>(options.micro_grains_of(recipe));
  w.value_bytes = recipe.dtype == DType::f32 ? 4 : 2;
  w.fp8 = s.machines.fp8;
  w.mode = parse_data_mode(recipe.data_mode);
  w.recompute = recipe.recompute;
  w.overlap = s.machines.overlap && !here;
  FittedConstants fit = fitted_constants();
  require(!here || s.machines.ranks <= 1024, "--simulate: {} ranks here; at most 1024 are planned", s.machines.ranks);
  if (here) {  // all ranks share its cores, its memory, and what their messages are copied through
    s.chip = measure_machine();
    share_machine(s.chip, s.machines.ranks);
  } else {
    s.chip = chip_of(s.machines.chip);
    fit.link_share = 1;  // what was fitted is this machine's
  }
  require(!w.fp8 || s.chip.fp8 > 0, "--simulate: {} has no fp8", s.chip.name);
  s.cost = cost_of_step(shape_of(setup.config), s.chip, s.machines.network, s.machines.mesh, w, fit);
  if (here && s.machines.mesh.data == s.machines.ranks) {
    const RankPlan plan = plan_run(recipe, options, s.machines.ranks).most();
    s.cost.parameter_memory = static_cast<double>(plan.parameters);
    s.cost.optimiser_memory = static_cast<double>(plan.optimiser);
    s.cost.gradient_memory = static_cast<double>(plan.gradients);
    s.cost.activation_memory = static_cast<double>(plan.activations);
  }
  return s;
}

}  // namespace isotone::train
