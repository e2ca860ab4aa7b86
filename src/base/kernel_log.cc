#include "base/kernel_log.h"

#include <atomic>
#include <map>
#include <mutex>

namespace isotone {
namespace {

struct Log {
  std::atomic<bool> on{false};
  std::mutex mutex;
  std::map<std::string, std::int64_t, std::less<>> counts;
};

Log& log() {
  static Log instance;
  return instance;
}

}  // namespace

void set_kernel_log(bool on) {
  Log& l = log();
  const std::lock_guard<std::mutex> lock(l.mutex);
  if (on) {
    l.counts.clear();
  }
  l.on.store(on);
}

void log_kernel(std::string_view name) {
  Log& l = log();
  if (!l.on.load(std::memory_order_relaxed)) [[likely]] {
    return;
  }
  const std::lock_guard<std::mutex> lock(l.mutex);
  auto it = l.counts.find(name);
  if (it == l.counts.end()) {
    it = l.counts.emplace(std::string(name), 0).first;
  }
  ++it->second;
}

std::vector<std::pair<std::string, std::int64_t>> kernel_log() {
  Log& l = log();
  const std::lock_guard<std::mutex> lock(l.mutex);
  return {l.counts.begin(), l.counts.end()};
}

std::int64_t kernel_calls(std::string_view name) {
  Log& l = log();
  const std::lock_guard<std::mutex> lock(l.mutex);
  const auto it = l.counts.find(name);
  return it == l.counts.end() ? 0 : it->second;
}

}  // namespace isotone
