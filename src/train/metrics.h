// metrics.jsonl and the curve drawn from it.
#pragma once

#include <optional>
#include <string>

#include "base/file.h"
#include "train/plot.h"
#include "train/run.h"

namespace isotone::train {

/// The file is kept up to the step from which the run goes on, then appended to, a line a step. Losses, norms and
/// learning rates are written with as many digits as give their bits back; what was measured stands apart, in "cost"
/// and "tok_s".
class Metrics {
 public:
  /// `recipe`: its fingerprint, of which every line has the first digits.
  Metrics(const std::string& out, std::int64_t from_step, const std::string& recipe);
  void add(const StepReport& report);
  /// Draws loss.svg; its path. What was added until now is on the disk afterwards.
  [[nodiscard]] std::string draw();

 private:
  std::string out_, origin_;
  std::uint64_t size_ = 0;
  std::optional<SharedFile> file_;
  Curve loss_{"training", {}}, eval_{"validation", {}};
};

}  // namespace isotone::train
