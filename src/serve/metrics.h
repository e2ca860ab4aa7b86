// Counters and histograms of the server, as Prometheus reads them. For one thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace isotone::serve {

/// Seconds in fixed buckets from 1 ms to 5 minutes.
class LatencyHistogram {
 public:
  static constexpr std::array<double, 15> kBounds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,  0.25,
                                                     0.5,   1.0,    2.5,   5.0,  10.0,  60.0, 300.0};
  void observe(double seconds);
  /// Appends the lines of one Prometheus histogram.
  void write(std::string& out, const std::string& name, const std::string& help) const;

 private:
  std::array<std::int64_t, kBounds.size()> counts_{};
  std::int64_t count_ = 0;
  double sum_ = 0.0;
};

struct Metrics {
  /// By (route, status); unknown routes are counted as "other".
  std::map<std::pair<std::string, int>, std::int64_t> requests;
  std::int64_t prompt_tokens = 0;
  std::int64_t reused_tokens = 0;
  std::int64_t generated_tokens = 0;
  std::int64_t cancelled = 0;
  std::int64_t rejected_queue_full = 0;
  int connections = 0;
  LatencyHistogram request_seconds;
  LatencyHistogram first_token_seconds;
  LatencyHistogram queue_seconds;

  /// The text of /metrics; the queue's figures are read when asked.
  [[nodiscard]] std::string text(int waiting, bool running) const;
};

}  // namespace isotone::serve
