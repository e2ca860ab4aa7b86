// Ctrl-C as a request to stop one answer, not the program.
#pragma once

#include <mutex>
#include <stop_token>
#include <thread>

namespace isotone::cli {

/// While it lives, SIGINT asks for a stop of the current answer; before the first answer it ends the program. Make it
/// before any other thread starts: threads inherit the mask that keeps the signal for this one.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  /// A token for the next answer; an earlier Ctrl-C does not count.
  std::stop_token next();
  /// Whether Ctrl-C was pressed since next().
  [[nodiscard]] bool interrupted() const;

 private:
  mutable std::mutex mutex_;
  bool answering_ = false;
  std::stop_source source_;
  std::jthread thread_;
};

}  // namespace isotone::cli
