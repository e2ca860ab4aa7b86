// A progress bar with rate and time left on standard error; nothing where that is not a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace isotone::cli {

class Progress {
 public:
  /// `what` stands in front ("converting"); `unit` is what is counted ("tensors").
  Progress(std::string what, std::string unit, bool quiet);
  /// Ends the line that was begun, also where an error comes.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Redraws at most ten times a second.
  void show(std::uint64_t done, std::uint64_t total);
  /// Draws the full bar.
  void finish(std::uint64_t total);

 private:
  using Clock = std::chrono::steady_clock;
  void draw(std::uint64_t done, std::uint64_t total);
  std::string what_, unit_;
  bool shown_;
  bool begun_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point drawn_{};
};

}  // namespace isotone::cli
