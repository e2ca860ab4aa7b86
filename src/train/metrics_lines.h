// metrics.jsonl read back, for whoever compares runs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace isotone::train {

struct MetricsLine {
  std::int64_t step = 0, tokens = 0;
  double loss = 0.0, grad_norm = 0.0, lr = 0.0;
  std::optional<double> eval_loss;
  std::string batch_sha256;
  std::vector<std::string> grain_losses;  ///< grain_hash_texts(); none in lines of older programs
  int numerics = 0;
  std::string profile, recipe;  ///< first digits of the recipe's fingerprint
};

/// By step. Half a line at the end, which a killed process leaves, is left out. Throws Error naming file and line where
/// another line is no line of metrics, or the file is not there.
std::map<std::int64_t, MetricsLine> read_metrics(const std::string& out);

}  // namespace isotone::train
