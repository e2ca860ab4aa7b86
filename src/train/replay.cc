#include "train/replay.h"

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"
#include "base/numerics.h"
#include "base/tree.h"
#include "dist/silent_rank.h"
#include "tensor/tensor.h"
#include "train/checkpoint.h"
#include "train/grain_hashes.h"
#include "train/run.h"
#include "train/run_data.h"
#include "train/setup.h"
#include "train/step.h"

namespace isotone::train {
namespace {

/// A run brought back to the state before one of its steps.
class Player {
 public:
  /// `from`: step of the checkpoint to begin with; 0: none, from the recipe's start.
  Player(const RunFiles& run, std::int64_t from)
      : run_(run),
        recipe_(recipe_of(run)),
        setup_(open_setup(recipe_)),
        data_(open_data(recipe_, setup_, alone_, [](const std::string&) {})),
        stepper_(setup_.config, recipe_, RunOptions{}.micro_grains_of(recipe_), alone_) {
    if (from > 0) {
      const RunRecipe asked{recipe_.fingerprint(), recipe_.fields(), run.checkpoints.at(from).recipe};
      state_ = load_checkpoint(run.checkpoint(from), asked, stepper_.shards());
    } else {
      state_ = fresh_state(recipe_, setup_, stepper_.shards());
    }
  }

  [[nodiscard]] const Recipe& recipe() const { return recipe_; }
  [[nodiscard]] const TrainState& state() const { return state_; }
  [[nodiscard]] std::int64_t per_step() const { return recipe_.rounds * recipe_.grains; }

  /// Does the next step; what a line of metrics would say of it.
  MetricsLine step() {
    const StepResult done = stepper_.step(state_, next_batch());
    MetricsLine line;
    line.batch_sha256 = done.batch_sha256;
    line.step = state_.step;
    line.loss = done.loss;
    line.grad_norm = static_cast<double>(done.grad_norm);
    line.grain_losses = grain_hash_texts(done.grain_losses);
    return line;
  }

  /// The next step's gradients of one grain.
  Stepper::Recorded record(std::int64_t grain) {
    const data::Batch batch = next_batch().part(0, per_step());
    return stepper_.record(state_, batch.part(grain, 1), 1.0F / static_cast<float>(batch.learned()));
  }

  /// Whether the state is the one that a manifest describes.
  [[nodiscard]] bool is(const Manifest& m) const {
    const auto same = [&](const nn::Parameters& group, const std::string& prefix) {
      return std::all_of(group.all().begin(), group.all().end(), [&](const auto& entry) {
        const auto hash = m.tensors.find(prefix + entry.first);
        return hash != m.tensors.end() && sha256_hex(entry.second.to_bytes()) == hash->second;
      });
    };
    return same(state_.parameters, "") && same(state_.m, "m.") && same(state_.v, "v.");
  }

 private:
  static Recipe recipe_of(const RunFiles& run) {
    const Manifest* m = run.recipe();
    require(m != nullptr, "{}: there is no checkpoint, so nobody knows the recipe", run.out);
    require(m->numerics == kNumericsVersion,
            "{}: was run under version {} of the numerics contract, this program keeps version {}", run.out,
            m->numerics, kNumericsVersion);
    require(!m->fields.empty(), "{}: its checkpoints keep no recipe; an older program wrote them", run.out);
    Recipe r = recipe_of_fields(m->fields, run.out);
    r.numerics = m->profile;
    return r;
  }

  [[nodiscard]] data::GlobalBatch next_batch() const {
    return data_.stream->batch(state_.step * per_step(), per_step());
  }

  const RunFiles& run_;
  dist::SilentRank alone_;
  Recipe recipe_;
  Setup setup_;
  RunData data_;
  Stepper stepper_;
  TrainState state_;
};

/// What a step made, but for what only the line of the run can say.
bool agrees(const MetricsLine& mine, const MetricsLine& line) {
  // The norm is an f32: its shortest digits are another number where they are read as an f64.
  return mine.batch_sha256 == line.batch_sha256 && mine.loss == line.loss &&
         static_cast<float>(mine.grad_norm) == static_cast<float>(line.grad_norm) &&
         (line.grain_losses.empty() || mine.grain_losses == line.grain_losses);
}

/// The newest checkpoint of a run at or before a step; 0: there is none.
std::int64_t checkpoint_before(const RunFiles& run, std::int64_t step) {
  const auto after = run.checkpoints.upper_bound(step);
  return after == run.checkpoints.begin() ? 0 : std::prev(after)->first;
}

void forward_to(Player& player, std::int64_t step) {
  while (player.state().step < step) {
    player.step();
  }
}

/// One grain under both recipes.
Replayed compare_recipes(const RunsCompared& runs, const ReplayOptions& options) {
  Replayed out;
  out.step = runs.step.has_value() ? runs.step->step : runs.tensor->step;
  Player a(runs.a, checkpoint_before(runs.a, out.step - 1)), b(runs.b, checkpoint_before(runs.b, out.step - 1));
  forward_to(a, out.step - 1);
  forward_to(b, out.step - 1);
  out.grain = runs.step.has_value() ? runs.step->first_grain : 0;
  out.grain = std::min({out.grain, a.per_step() - 1, b.per_step() - 1});
  const Stepper::Recorded x = a.record(out.grain), y = b.record(out.grain);
  out.operations = std::max(x.graph.code.size(), y.graph.code.size());
  device::Device& device = default_device();
  out.op = first_op_difference({x.graph, x.inputs, device}, {y.graph, y.inputs, device}, x.names, options.on_operation);
  return out;
}

/// One grain by this machine's kernels and by the reference.
void compare_with_reference(Player& player, const ReplayOptions& options, Replayed& out) {
  const Stepper::Recorded r = player.record(out.grain);
  std::vector<device::BufferPtr> copies;
  for (std::size_t i = 0; i < r.inputs.size(); ++i) {
    const ir::Type& type = r.graph.types[static_cast<std::size_t>(r.graph.inputs[i])];
    std::vector<std::byte> bytes(std::max(r.inputs[i]->bytes(), type.bytes()));
    r.inputs[i]->read(bytes.data());
    copies.push_back(options.reference->upload(bytes.data(), type.bytes()));
  }
  out.operations = r.graph.code.size();
  out.op = first_op_difference({r.graph, r.inputs, default_device()}, {r.graph, copies, *options.reference}, r.names,
                               options.on_operation);
}

}  // namespace

Replayed replay(const RunsCompared& runs, const ReplayOptions& options) {
  require(!runs.same(), "{} and {} do not differ: there is nothing to look for", runs.a.out, runs.b.out);
  if (!runs.recipes.empty()) {
    return compare_recipes(runs, options);
  }
  Replayed out;
  // The earlier of the two signs; a checkpoint after step n comes after n's line.
  out.by_checkpoint = !runs.step.has_value() || (runs.tensor.has_value() && runs.tensor->step < runs.step->step);
  out.step = out.by_checkpoint ? runs.tensor->step : runs.step->step;
  out.from_step = runs.equal_at.value_or(0);
  Player player(runs.a, out.from_step);
  while (player.state().step < out.step - 1) {
    const MetricsLine mine = player.step();
    for (const RunFiles* run : {&runs.a, &runs.b}) {
      const auto line = run->metrics.find(mine.step);
      require(line == run->metrics.end() || agrees(mine, line->second),
              "step {} comes out otherwise here than in both runs, which agree on it: this program, the data files or "
              "this machine are not what made them",
              mine.step);
    }
  }
  const bool grain_known = runs.step.has_value() && !out.by_checkpoint && runs.step->grains > 0;
  out.grain = grain_known ? runs.step->first_grain : 0;
  if (options.reference != nullptr) {
    compare_with_reference(player, options, out);
  }
  const MetricsLine mine = player.step();
  const auto like = [&](const RunFiles& run) {
    return out.by_checkpoint ? player.is(run.checkpoints.at(out.step)) : agrees(mine, run.metrics.at(out.step));
  };
  out.like_a = like(runs.a);
  out.like_b = like(runs.b);
  return out;
}

}  // namespace isotone::train
