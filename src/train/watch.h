// What can be seen of a run while it goes on: costs of a step, a timeline, files for TensorBoard and Prometheus, a log
// a rank. Nothing here shows in a number of the run.
#pragma once

#include <memory>
#include <optional>

#include "base/timeline.h"
#include "dist/timed_communicator.h"
#include "train/run.h"
#include "train/step.h"
#include "train/tensorboard.h"

namespace isotone::train {

class Watch {
 public:
  /// Every rank makes one. The run talks through ranks(), so that its messages are seen.
  Watch(const Recipe& recipe, const RunOptions& options, dist::Communicator& world);
  [[nodiscard]] dist::Communicator& ranks() { return timed_; }
  /// Null where no timeline is wanted.
  [[nodiscard]] Timeline* timeline() { return timeline_.get(); }

  /// Opens this rank's files, once the run's folder is there; talks to no other.
  void open();
  /// Before the first step: measures the peak, aligns clocks. Every rank calls it.
  void start(const ModelConfig& config, Stepper& stepper);
  void begin_step();
  /// Fills report.cost. `seconds`: since begin_step().
  void end_step(StepReport& report, double seconds);
  /// Writes what this rank has to; talks to no other.
  void add(const StepReport& report);
  /// Into the rank's log, where there is one. Never throws.
  void note(const std::string& text);
  /// Every rank calls it: writes the timeline.
  void finish();

 private:
  void log(const std::string& line);
  const Recipe& recipe_;
  std::string timeline_path_, tensorboard_, prometheus_;
  std::unique_ptr<Timeline> timeline_;
  dist::TimedCommunicator timed_;
  dist::Traffic before_;
  double flops_ = 0.0, peak_ = 0.0;
  std::size_t planned_bytes_ = 0;
  std::int64_t zero_ = 0, offset_ = 0;
  std::optional<EventFile> events_;
  std::optional<SharedFile> log_;
  std::uint64_t log_size_ = 0;
};

}  // namespace isotone::train
