#include "train/watch.h"

#include <fmt/chrono.h>
#include <unistd.h>

#include "base/error.h"
#include "base/process_memory.h"
#include "train/plan.h"
#include "train/prometheus.h"
#include "train/step_flops.h"
#include "train/timeline_file.h"

namespace isotone::train {
namespace {

/// Some hours of steps; about 60 MB.
constexpr std::size_t kStretches = 1 << 20;

Scalars scalars_of(const StepReport& s) {
  Scalars out{{"loss", s.loss},
              {"grad_norm", static_cast<double>(s.grad_norm)},
              {"learning_rate", s.lr},
              {"learned_tokens", static_cast<double>(s.tokens)},
              {"cost/tokens_per_second", s.tok_s},
              {"cost/step_seconds", s.cost.seconds},
              {"cost/peak_share", s.cost.peak_share},
              {"cost/communication_share", s.cost.communication_share},
              {"cost/resident_bytes", static_cast<double>(s.cost.resident_bytes)}};
  if (s.eval_loss >= 0.0) {
    out.emplace_back("validation_loss", s.eval_loss);
  }
  return out;
}

std::string time_stamp() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

}  // namespace

Watch::Watch(const Recipe& recipe, const RunOptions& options, dist::Communicator& world)
    : recipe_(recipe),
      timeline_path_(options.timeline),
      tensorboard_(options.tensorboard.empty() ? recipe.tensorboard : options.tensorboard),
      prometheus_(options.prometheus.empty() ? recipe.prometheus : options.prometheus),
      timeline_(options.timeline.empty() ? nullptr : std::make_unique<Timeline>(kStretches)),
      timed_(world, timeline_.get()) {}

void Watch::open() {
  if (timed_.size() > 1) {
    const std::string folder = join_path(recipe_.out, "ranks");
    make_folders(folder);
    const std::string path = join_path(folder, fmt::format("rank-{:04}.log", timed_.rank()));
    log_size_ = path_exists(path) ? file_size(path) : 0;
    log_.emplace(path);
    log(fmt::format("rank {} of {}, process {}", timed_.rank(), timed_.size(), getpid()));
  }
  if (timed_.rank() == 0 && !tensorboard_.empty()) {
    events_.emplace(tensorboard_);
  }
}

void Watch::start(const ModelConfig& config, Stepper& stepper) {
  const auto grains = static_cast<double>(recipe_.rounds * recipe_.grains);
  flops_ = step_flops(config, stepper.shards().specs(), grains, static_cast<double>(recipe_.grain_tokens));
  planned_bytes_ = planned_bytes(recipe_, stepper);
  peak_ = matmul_flops_a_second(timed_, recipe_.dtype);
  if (timeline_ != nullptr) {
    offset_ = clock_offset(timed_);
    zero_ = clock_ns();
  }
}

void Watch::begin_step() {
  before_ = timed_.traffic();
}

void Watch::end_step(StepReport& report, double seconds) {
  const dist::Traffic& now = timed_.traffic();
  StepCost& c = report.cost;
  c.seconds = seconds;
  c.communication_share = static_cast<double>(now.nanoseconds - before_.nanoseconds) / 1e9 / seconds;
  c.peak_share = flops_ / seconds / peak_;
  c.sent_bytes = now.sent - before_.sent;
  c.received_bytes = now.received - before_.received;
  c.planned_bytes = planned_bytes_;
  c.resident_bytes = resident_bytes();
}

void Watch::add(const StepReport& s) {
  if (events_.has_value()) {
    events_->add(s.step, scalars_of(s));
  }
  if (timed_.rank() == 0 && !prometheus_.empty()) {
    write_file_atomic(prometheus_, prometheus_text(s, recipe_.fingerprint().substr(0, 16), timed_.size()));
  }
  log(fmt::format(
      "step {} of {}: loss {}, norm {}, {:.3f} s, {:.1f} % on messages, {} bytes sent, {} received, {} bytes "
      "held",
      s.step, s.steps, s.loss, s.grad_norm, s.cost.seconds, 100.0 * s.cost.communication_share, s.cost.sent_bytes,
      s.cost.received_bytes, s.cost.resident_bytes));
}

void Watch::note(const std::string& text) {
  try {
    log(text);
  } catch (const Error&) {  // a log that cannot be written must not hide what the note says
    log_.reset();
  }
}

void Watch::log(const std::string& line) {
  if (log_.has_value()) {
    const std::string text = time_stamp() + " " + line + "\n";
    log_->write_at(log_size_, std::as_bytes(std::span(text)));
    log_size_ += text.size();
  }
}

void Watch::finish() {
  if (timeline_ != nullptr) {
    write_timeline(timeline_path_, *timeline_, offset_, zero_, timed_);
  }
}

}  // namespace isotone::train
