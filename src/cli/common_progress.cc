#include "cli/common_progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace isotone::cli {

Progress::Progress(std::string what, std::string unit, bool quiet)
    : what_(std::move(what)), unit_(std::move(unit)), shown_(!quiet && isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() {
  if (begun_) {
    std::fputc('\n', stderr);
  }
}

void Progress::show(std::uint64_t done, std::uint64_t total) {
  if (shown_ && Clock::now() - drawn_ > std::chrono::milliseconds(100)) {
    draw(done, total);
  }
}

void Progress::finish(std::uint64_t total) {
  if (shown_) {
    draw(total, total);
  }
}

void Progress::draw(std::uint64_t done, std::uint64_t total) {
  constexpr std::uint64_t kWidth = 30;
  drawn_ = Clock::now();
  begun_ = true;
  const double seconds = std::chrono::duration<double>(drawn_ - start_).count();
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0.0;
  const auto full = static_cast<std::size_t>(total > 0 ? kWidth * done / total : kWidth);
  fmt::print(stderr, "\r{} [{}{}] {} of {} {}, {:.0f}/s, {:.0f} s left ", what_, std::string(full, '#'),
             std::string(kWidth - full, '.'), done, total, unit_, rate,
             rate > 0 ? static_cast<double>(total - done) / rate : 0.0);
  std::fflush(stderr);
}

}  // namespace isotone::cli
