// metrics.jsonl and the curve drawn from it.
#pragma once

#include <string>

#include "train/plot.h"
#include "train/run.h"

namespace isotone::train {

/// The file is kept up to the step from which the run goes on, then appended to.
class Metrics {
 public:
  Metrics(const std::string& out, std::int64_t from_step);
  void add(const StepReport& report);
  /// Draws loss.svg; its path.
  [[nodiscard]] std::string draw() const;

 private:
  std::string out_, path_, text_;
  Curve loss_{"training", {}}, eval_{"validation", {}};
};

}  // namespace isotone::train
