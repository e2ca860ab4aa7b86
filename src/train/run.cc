#include "train/run.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/file_lock.h"
#include "dist/agree.h"
#include "train/metrics.h"
#include "train/run_data.h"
#include "train/setup.h"
#include "train/step.h"
#include "train/watch.h"
#include "train/workers.h"

namespace isotone::train {

namespace {

using Clock = std::chrono::steady_clock;

/// The checkpoints that rank 0 sees, newest first.
std::vector<std::string> agreed_checkpoints(const std::string& out, dist::Communicator& ranks) {
  std::vector<std::string> all;
  dist::together(ranks, [&] { all = ranks.rank() == 0 ? list_checkpoints(out) : all; });
  const std::string text = dist::text_of_rank_0(ranks, fmt::format("{}", fmt::join(all, "\n")));
  all.clear();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    all.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return all;
}

RunRecipe run_recipe(const Recipe& r, const RunData& data, const RunOptions& o) {
  return {r.fingerprint(), r.fields(), o.accept_recipe, data.contents};
}

/// The newest checkpoint that verifies; damaged ones are told about.
std::optional<TrainState> find_checkpoint(const RunRecipe& recipe, const std::string& out, const Shards& shards,
                                          const RunOptions& o, const RunObserver& observer, std::string& from) {
  if (o.resume != "auto" && o.resume != "never") {
    from = o.resume;
    return load_checkpoint(o.resume, recipe, shards);
  }
  const std::vector<std::string> all = agreed_checkpoints(out, shards.ranks());
  if (o.resume == "never") {
    require(all.empty(), "{}: there is a checkpoint already ({}); remove it, choose another --out, or resume", out,
            all.empty() ? "" : all[0]);
    return std::nullopt;
  }
  std::string first_fault;
  for (const std::string& folder : all) {
    try {
      TrainState state = load_checkpoint(folder, recipe, shards);
      from = folder;
      if (!first_fault.empty()) {
        observer.on_note(fmt::format("the last good checkpoint is {}", folder));
      }
      return state;
    } catch (const OtherRun&) {
      throw;
    } catch (const dist::RankLost&) {
      throw;  // says nothing of the checkpoint
    } catch (const Error& e) {
      const std::string what = e.what();
      first_fault = first_fault.empty() ? what : first_fault;
      observer.on_note(fmt::format("damaged checkpoint left aside: {}", what));
    }
  }
  require(all.empty(), "{}: no checkpoint is good; the newest: {}", out, first_fault);
  return std::nullopt;
}

/// Checkpoints of a run: written while it goes on, put in their place between two steps.
class Saver {
 public:
  Saver(const Recipe& recipe, RunRecipe kept, const Setup& setup, const Shards& shards, const RunObserver& observer,
        RunResult& result)
      : recipe_(recipe), kept_(std::move(kept)), setup_(setup), shards_(shards), observer_(observer), result_(result) {}

  void begin(const TrainState& state) {
    finish();
    writing_.emplace(join_path(recipe_.out, checkpoint_name(state.step)), state, setup_.text, kept_, shards_);
  }
  /// Between two steps: every rank calls it.
  void look() {
    if (writing_.has_value() && dist::every_rank(shards_.ranks(), writing_->written())) {
      finish();
    }
  }
  void finish() {
    if (!writing_.has_value()) {
      return;
    }
    writing_->commit();
    result_.checkpoint = writing_->folder();
    writing_.reset();
    dist::together(shards_.ranks(), [&] {
      if (shards_.ranks().rank() != 0) {
        return;
      }
      const std::vector<std::string> all = list_checkpoints(recipe_.out);
      for (std::size_t i = static_cast<std::size_t>(recipe_.keep); i < all.size(); ++i) {
        remove_aside(all[i]);
      }
    });
    observer_.on_note(fmt::format("saved {}", result_.checkpoint));
  }

 private:
  const Recipe& recipe_;
  RunRecipe kept_;
  const Setup& setup_;
  const Shards& shards_;
  const RunObserver& observer_;
  RunResult& result_;
  std::optional<CheckpointWriter> writing_;
};

/// Removes what processes that were killed while they wrote have left behind.
void clean_leftovers(const std::string& out) {
  for (const std::string& name : list_folder(out)) {
    if (is_aside_name(name)) {
      remove_all(join_path(out, name));
    }
  }
}

}  // namespace

std::int64_t RunOptions::micro_grains_of(const Recipe& r) const {
  // About 2,048 tokens at once keep the kernels busy and the activations small.
  return micro_grains > 0 ? micro_grains : std::max<std::int64_t>(1, 2048 / r.grain_tokens);
}

RunResult run(const Recipe& r, const RunOptions& o, const RunObserver& caller, const std::stop_token& stop,
              dist::Communicator& world) {
  Watch watch(r, o, world);
  dist::Communicator& ranks = watch.ranks();
  const RunObserver observer{caller.on_step, [&](const std::string& text) {
                               watch.note(text);
                               caller.on_note(text);
                             }};
  std::optional<Setup> opened;
  std::optional<FolderLock> lock;  // rank 0's, until the run ends
  dist::together(ranks, [&] {
    opened.emplace(open_setup(r));
    make_folders(r.out);
    if (ranks.rank() == 0) {
      lock.emplace(r.out);
      if (lock->held()) {  // else they may be somebody's who is writing
        clean_leftovers(r.out);
      }
    }
    watch.open();
  });
  if (lock.has_value() && !lock->held()) {
    observer.on_note(fmt::format("{}: this file system has no locks; let no other run write there", r.out));
  }
  Setup& s = *opened;
  require(o.accept_recipe.empty() || o.accept_recipe.size() >= 8,
          "--accept-recipe needs the recipe's fingerprint, at least 8 digits of it; '{}' is too short",
          o.accept_recipe);
  const RunData data = open_data(r, s, ranks, observer.on_note);
  RunResult result;
  Stepper stepper(s.config, r, o.micro_grains_of(r), ranks);
  stepper.set_audit(o.audit);
  std::optional<TrainState> resumed =
      find_checkpoint(run_recipe(r, data, o), r.out, stepper.shards(), o, observer, result.checkpoint);
  TrainState state;
  dist::together(ranks,
                 [&] { state = resumed.has_value() ? std::move(*resumed) : fresh_state(r, s, stepper.shards()); });
  resumed.reset();
  if (!result.checkpoint.empty()) {
    observer.on_note(fmt::format("going on from {} at step {}", result.checkpoint, state.step));
    if (!state.earlier.empty() && state.earlier.back().steps == state.step) {
      observer.on_note(fmt::format("another recipe's checkpoint is accepted: {}", state.earlier.back().fingerprint));
    }
  }
  s.files.reset();  // its mapped pages are no longer needed
  result.planned_peak_bytes = stepper.memory(stepper.grains_at_once()).peak();
  std::optional<Metrics> metrics;
  if (ranks.rank() == 0) {
    metrics.emplace(r.out, state.step, r.fingerprint());
  }
  watch.start(s.config, stepper);
  stepper.set_timeline(watch.timeline());
  note_session(r.out, state.step, ranks, stepper.shards().grid().mesh().ranks());
  Saver saver(r, run_recipe(r, data, o), s, stepper.shards(), observer, result);
  const std::int64_t per_step = r.rounds * r.grains, first = state.step;
  std::int64_t saved_step = result.checkpoint.empty() ? -1 : state.step;
  const auto begin = Clock::now();
  while (state.step < r.steps && (o.stop_after == 0 || state.step - first < o.stop_after) &&
         !dist::any_rank(ranks, stop.stop_requested())) {
    const auto start = Clock::now();
    ranks.calls().section(fmt::format("step {}", state.step + 1));
    watch.begin_step();
    const data::GlobalBatch batch = data.stream->batch(state.step * per_step, per_step);
    StepReport report;
    report.lr = learning_rate(r, state.step);
    StepResult done;
    {
      const Timed timed(watch.timeline(), "step", Work::compute);
      done = stepper.step(state, batch);
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    report.batch_sha256 = done.batch_sha256;
    report.step = state.step;
    report.steps = r.steps;
    ++result.steps_done;
    result.audited += done.audited;
    report.loss = result.loss = done.loss;
    report.grad_norm = done.grad_norm;
    report.balance = done.balance;
    report.grain_losses = done.grain_losses;
    report.tokens = state.tokens;
    report.tok_s = static_cast<double>(batch.grains() * batch.tokens()) / seconds;
    watch.end_step(report, seconds);
    const double elapsed = std::chrono::duration<double>(Clock::now() - begin).count();
    report.seconds_left = elapsed / static_cast<double>(state.step - first) * static_cast<double>(r.steps - state.step);
    if (r.eval_every > 0 && (state.step % r.eval_every == 0 || state.step == r.steps)) {
      const Timed timed(watch.timeline(), "evaluation", Work::compute);
      report.eval_loss = stepper.evaluate(state, data::in_order(*data.validation, r.eval_grains));
    }
    dist::together(ranks, [&] {
      if (metrics.has_value()) {
        metrics->add(report);
      }
      watch.add(report);
    });
    observer.on_step(report);
    const Timed timed(watch.timeline(), "checkpoint", Work::checkpoint);
    saver.look();
    if (r.checkpoint_every > 0 && state.step % r.checkpoint_every == 0) {
      saver.begin(state);
      saved_step = state.step;
      dist::together(ranks, [&] { result.curve = metrics.has_value() ? metrics->draw() : ""; });
    }
  }
  {
    const Timed timed(watch.timeline(), "checkpoint", Work::checkpoint);
    if (saved_step != state.step) {
      saver.begin(state);
    }
    saver.finish();
  }
  watch.finish();
  dist::together(ranks, [&] { result.curve = metrics.has_value() ? metrics->draw() : ""; });
  result.step = state.step;
  result.finished = state.step >= r.steps;
  return result;
}

}  // namespace isotone::train
