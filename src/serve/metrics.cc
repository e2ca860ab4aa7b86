// Prometheus text format 0.0.4.
#include "serve/metrics.h"

#include <fmt/format.h>

#include <iterator>

namespace isotone::serve {

void LatencyHistogram::observe(double seconds) {
  for (std::size_t i = 0; i < kBounds.size(); ++i) {
    if (seconds <= kBounds[i]) {
      ++counts_[i];
      break;
    }
  }
  ++count_;
  sum_ += seconds;
}

void LatencyHistogram::write(std::string& out, const std::string& name, const std::string& help) const {
  auto to = std::back_inserter(out);
  fmt::format_to(to, "# HELP {0} {1}\n# TYPE {0} histogram\n", name, help);
  std::int64_t below = 0;
  for (std::size_t i = 0; i < kBounds.size(); ++i) {
    below += counts_[i];
    fmt::format_to(to, "{}_bucket{{le=\"{}\"}} {}\n", name, kBounds[i], below);
  }
  fmt::format_to(to, "{0}_bucket{{le=\"+Inf\"}} {1}\n{0}_sum {2}\n{0}_count {1}\n", name, count_, sum_);
}

std::string Metrics::text(int waiting, bool running) const {
  std::string out;
  auto to = std::back_inserter(out);
  out += "# HELP isotone_requests_total HTTP requests answered.\n# TYPE isotone_requests_total counter\n";
  for (const auto& [key, count] : requests) {
    fmt::format_to(to, "isotone_requests_total{{route=\"{}\",status=\"{}\"}} {}\n", key.first, key.second, count);
  }
  const auto one = [&](const char* name, const char* type, const char* help, std::int64_t value) {
    fmt::format_to(to, "# HELP {0} {1}\n# TYPE {0} {2}\n{0} {3}\n", name, help, type, value);
  };
  one("isotone_prompt_tokens_total", "counter", "Tokens of prompts.", prompt_tokens);
  one("isotone_reused_tokens_total", "counter", "Prompt tokens found in the cache.", reused_tokens);
  one("isotone_generated_tokens_total", "counter", "Tokens generated.", generated_tokens);
  one("isotone_cancelled_total", "counter", "Answers whose client went away.", cancelled);
  one("isotone_queue_full_total", "counter", "Requests refused because the queue was full.", rejected_queue_full);
  one("isotone_queue_waiting", "gauge", "Requests that wait for the model.", waiting);
  one("isotone_running", "gauge", "Requests at work in the model.", running ? 1 : 0);
  one("isotone_connections", "gauge", "Open connections.", connections);
  request_seconds.write(out, "isotone_request_seconds", "From a request's arrival to the end of its answer.");
  first_token_seconds.write(out, "isotone_first_token_seconds", "From the start of work to the first token.");
  queue_seconds.write(out, "isotone_queue_seconds", "Time a request waited for the model.");
  return out;
}

}  // namespace isotone::serve
