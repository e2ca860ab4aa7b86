// Ctrl-C as a request to stop one answer, not the program.
#pragma once

#include <mutex>
#include <stop_token>

#include "cli/common_signals.h"

namespace isotone::cli {

/// While it lives, SIGINT asks for a stop of the current answer; before the first answer it ends the program. To be
/// made before any other thread starts.
class Interrupts {
 public:
  Interrupts();

  /// A token for the next answer; an earlier Ctrl-C does not count.
  std::stop_token next();
  /// Whether Ctrl-C was pressed since next().
  [[nodiscard]] bool interrupted() const;

 private:
  mutable std::mutex mutex_;
  bool answering_ = false;
  std::stop_source source_;
  SignalThread signals_;  // ends first
};

}  // namespace isotone::cli
