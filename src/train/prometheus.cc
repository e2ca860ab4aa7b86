#include "train/prometheus.h"

#include <fmt/format.h>

#include <iterator>

namespace isotone::train {

std::string prometheus_text(const StepReport& s, const std::string& recipe, int ranks) {
  std::string out;
  const auto add = [&](const char* name, const char* type, const char* help, double value) {
    fmt::format_to(std::back_inserter(out),
                   "# HELP isotone_train_{0} {1}\n# TYPE isotone_train_{0} {2}\n"
                   "isotone_train_{0}{{recipe=\"{3}\"}} {4}\n",
                   name, help, type, recipe, value);
  };
  add("step", "gauge", "Optimiser steps done.", static_cast<double>(s.step));
  add("steps", "gauge", "Optimiser steps of the recipe.", static_cast<double>(s.steps));
  add("loss", "gauge", "Mean loss of a learned token at this step.", s.loss);
  if (s.eval_loss >= 0.0) {
    add("validation_loss", "gauge", "The same over the validation files.", s.eval_loss);
  }
  add("grad_norm", "gauge", "Norm of all gradients before clipping.", static_cast<double>(s.grad_norm));
  add("learning_rate", "gauge", "Learning rate of this step.", s.lr);
  add("learned_tokens_total", "counter", "Tokens learned since the first step.", static_cast<double>(s.tokens));
  add("tokens_per_second", "gauge", "Tokens of the batch a second.", s.tok_s);
  add("step_seconds", "gauge", "Time of this step.", s.cost.seconds);
  add("peak_share", "gauge", "Share of what the machine's matrix products reach.", s.cost.peak_share);
  add("communication_share", "gauge", "Share of the step that rank 0 spent on messages.", s.cost.communication_share);
  add("sent_bytes", "gauge", "Bytes that rank 0 sent in this step.", static_cast<double>(s.cost.sent_bytes));
  add("planned_memory_bytes", "gauge", "Memory that rank 0 was planned to take.",
      static_cast<double>(s.cost.planned_bytes));
  add("resident_memory_bytes", "gauge", "Memory that rank 0 holds.", static_cast<double>(s.cost.resident_bytes));
  add("ranks", "gauge", "Ranks of the run.", ranks);
  return out;
}

}  // namespace isotone::train
