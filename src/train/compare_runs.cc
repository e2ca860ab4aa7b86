#include "train/compare_runs.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/ulps.h"
#include "formats/model_config.h"
#include "formats/safetensors.h"
#include "models/model.h"
#include "train/checkpoint.h"
#include "train/examine.h"
#include "train/grain_hashes.h"

namespace isotone::train {
namespace {

std::string recipes_of(const RunFiles& a, const RunFiles& b) {
  const Manifest *x = a.recipe(), *y = b.recipe();
  if (x == nullptr || y == nullptr) {
    const bool same = a.metrics.empty() || b.metrics.empty() ||
                      a.metrics.rbegin()->second.recipe == b.metrics.rbegin()->second.recipe;
    return same ? "" : "their fingerprints differ, and without a checkpoint of each nobody can say in what";
  }
  std::string found;
  const auto add = [&](const std::string& text) { found += (found.empty() ? "" : "; ") + text; };
  if (x->numerics != y->numerics) {
    add(fmt::format("the numerics contract is version {} there and {} here", x->numerics, y->numerics));
  }
  if (x->profile != y->profile) {
    add(fmt::format("the numerics profile is {} there and {} here", x->profile, y->profile));
  }
  if (x->recipe != y->recipe) {
    const std::string keys = recipe_differences(x->fields, y->fields);
    add(keys.empty() ? "their fingerprints differ, but no key does" : keys);
  }
  return found;
}

/// Fields that differ, in the order in which a step makes them.
std::vector<std::string> fields_of(const MetricsLine& a, const MetricsLine& b) {
  std::vector<std::string> out;
  const auto add = [&](bool same, const char* name) {
    if (!same) {
      out.emplace_back(name);
    }
  };
  add(a.batch_sha256 == b.batch_sha256, "batch_sha256");
  add(a.grain_losses.empty() || b.grain_losses.empty() || a.grain_losses == b.grain_losses, "grain_losses");
  add(a.loss == b.loss, "loss");
  add(a.grad_norm == b.grad_norm, "grad_norm");
  add(a.lr == b.lr, "lr");
  add(a.tokens == b.tokens, "tokens");
  add(!a.eval_loss.has_value() || !b.eval_loss.has_value() || *a.eval_loss == *b.eval_loss, "eval_loss");
  return out;
}

/// Grains of a step, where a checkpoint keeps its recipe's fields.
std::int64_t grains_of(const RunFiles& run) {
  const Manifest* m = run.recipe();
  if (m == nullptr || m->fields.empty()) {
    return 0;
  }
  const Recipe r = recipe_of_fields(m->fields, run.out);
  return r.rounds * r.grains;
}

StepDifference step_difference(const RunFiles& a, const RunFiles& b, std::int64_t step,
                               std::vector<std::string> fields) {
  StepDifference d;
  d.step = step;
  d.fields = std::move(fields);
  const auto &x = a.metrics.at(step).grain_losses, &y = b.metrics.at(step).grain_losses;
  const std::size_t n = std::min(x.size(), y.size());
  const auto at = static_cast<std::size_t>(
      std::mismatch(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(n), y.begin()).first - x.begin());
  if (at < n) {
    const std::int64_t grains = grains_of(a);
    const std::int64_t group = grain_group(grains);
    d.first_grain = static_cast<std::int64_t>(at) * group;
    d.grains = grains == 0 ? 1 : std::min(group, grains - d.first_grain);
  }
  return d;
}

/// Names of a checkpoint's tensors: the model's parameters in its order, then their moments; others behind, by name.
std::vector<std::string> names_in_order(const std::string& folder, const Manifest& manifest,
                                        std::vector<std::string>& notes) {
  std::vector<std::string> names, parameters;
  try {
    const std::string path = join_path(folder, "config.json");
    const ModelConfig c = parse_model_config(read_text_file(path, std::size_t{16} << 20), path);
    for (const nn::ParameterSpec& s : models::architecture_of(c).parameters(c)) {
      parameters.push_back(s.name);
    }
  } catch (const Error& e) {
    notes.push_back(fmt::format("tensors are compared in the order of their names: {}", e.what()));
  }
  for (const char* prefix : {"", "m.", "v."}) {
    for (const std::string& name : parameters) {
      names.push_back(prefix + name);
    }
  }
  const std::set<std::string> known(names.begin(), names.end());
  for (const auto& [name, hash] : manifest.tensors) {
    if (!known.contains(name)) {
      names.push_back(name);
    }
  }
  return names;
}

/// A tensor of a checkpoint, as its manifest says it is.
TensorView view_of(const std::string& folder, const std::string& name, const std::string& hash) {
  const bool moment = name.starts_with("m.") || name.starts_with("v.");
  const Safetensors file(join_path(folder, moment ? kOptimiserFile : kWeightsFile));
  TensorView t = file.tensor(name);
  require(t.dtype == DType::f32, "{}: tensor '{}' is {}, not f32", file.path(), name, dtype_name(t.dtype));
  require(sha256_hex(t.data) == hash, "{}: tensor '{}' is damaged: its checksum differs from the manifest's",
          file.path(), name);
  return t;
}

void compare_elements(const TensorView& a, const TensorView& b, TensorDifference& d) {
  require(a.shape == b.shape, "tensor '{}' has the shape {} there and {} here", a.name, shape_text(a.shape),
          shape_text(b.shape));
  d.of_elements = a.elements();
  for (std::int64_t i = 0; i < d.of_elements; ++i) {
    const std::byte *x = a.data.data() + 4 * i, *y = b.data.data() + 4 * i;
    if (std::memcmp(x, y, 4) == 0) {
      continue;
    }
    ++d.elements;
    if (d.element < 0) {
      d.element = i;
      d.ulps = ulps_apart(DType::f32, x, y);
      std::memcpy(&d.a, x, 4);
      std::memcpy(&d.b, y, 4);
    }
  }
}

TensorDifference tensor_difference(const RunsCompared& c, std::int64_t step, std::vector<std::string>& notes) {
  const Manifest &x = c.a.checkpoints.at(step), &y = c.b.checkpoints.at(step);
  const auto hash_in = [](const Manifest& m, const std::string& name) {
    const auto at = m.tensors.find(name);
    return at == m.tensors.end() ? std::string() : at->second;
  };
  TensorDifference d;
  d.step = step;
  std::set<std::string> all;
  for (const Manifest* m : {&x, &y}) {
    for (const auto& [name, hash] : m->tensors) {
      all.insert(name);
    }
  }
  d.of_tensors = all.size();
  for (const std::string& name : all) {
    d.tensors += hash_in(x, name) == hash_in(y, name) ? 0 : 1;
  }
  std::vector<std::string> order = names_in_order(c.a.checkpoint(step), x, notes);
  order.insert(order.end(), all.begin(), all.end());
  for (const std::string& name : order) {
    if (hash_in(x, name) == hash_in(y, name)) {
      continue;
    }
    d.name = name;
    try {
      require(!hash_in(x, name).empty(), "{}: there is no such tensor", c.a.checkpoint(step));
      require(!hash_in(y, name).empty(), "{}: there is no such tensor", c.b.checkpoint(step));
      compare_elements(view_of(c.a.checkpoint(step), name, hash_in(x, name)),
                       view_of(c.b.checkpoint(step), name, hash_in(y, name)), d);
    } catch (const Error& e) {
      d.element = -1;
      d.fault = e.what();
    }
    break;
  }
  return d;
}

}  // namespace

std::string RunFiles::checkpoint(std::int64_t step) const {
  return join_path(out, checkpoint_name(step));
}

const Manifest* RunFiles::recipe() const {
  return checkpoints.empty() ? nullptr : &checkpoints.rbegin()->second;
}

RunFiles read_run(const std::string& out, std::vector<std::string>& notes) {
  require(is_folder(out), "{}: there is no such folder; name the out folder of a run", out);
  RunFiles run;
  run.out = out;
  run.metrics = read_metrics(out);
  run.sessions = read_sessions(out);
  for (const std::string& folder : list_checkpoints(out)) {
    try {
      Manifest m = read_manifest(folder);
      require(folder == join_path(out, checkpoint_name(m.step)), "{}: the manifest is of step {}", folder, m.step);
      run.checkpoints[m.step] = std::move(m);
    } catch (const Error& e) {
      notes.push_back(fmt::format("left aside: {}", e.what()));
    }
  }
  return run;
}

RunsCompared compare_runs(const std::string& a, const std::string& b) {
  RunsCompared c;
  c.a = read_run(a, c.notes);
  c.b = read_run(b, c.notes);
  c.recipes = recipes_of(c.a, c.b);
  for (const auto& [step, line] : c.a.metrics) {
    const auto other = c.b.metrics.find(step);
    if (other == c.b.metrics.end()) {
      continue;
    }
    c.steps.push_back(step);
    if (std::vector<std::string> fields = fields_of(line, other->second); !fields.empty() && !c.step.has_value()) {
      c.step = step_difference(c.a, c.b, step, std::move(fields));
    }
  }
  for (const auto& [step, manifest] : c.a.checkpoints) {
    const auto other = c.b.checkpoints.find(step);
    if (other == c.b.checkpoints.end()) {
      continue;
    }
    c.saved.push_back(step);
    if (c.tensor.has_value()) {
      continue;
    }
    if (manifest.tensors != other->second.tensors) {
      c.tensor = tensor_difference(c, step, c.notes);
    } else if (!c.step.has_value() || step < c.step->step) {
      c.equal_at = step;
    }
  }
  return c;
}

}  // namespace isotone::train
