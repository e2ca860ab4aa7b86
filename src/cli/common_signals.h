// Signals as calls on a thread of their own: unlike a signal handler it may lock and call anything.
#pragma once

#include <signal.h>

#include <functional>
#include <initializer_list>
#include <thread>

namespace isotone::cli {

/// Calls `on_signal(number)` for each of `signals` that arrives while it lives. To be made before any other thread
/// starts: threads inherit the mask that keeps the signals for this one.
class SignalThread {
 public:
  SignalThread(std::initializer_list<int> signals, std::function<void(int)> on_signal);
  /// Ends at once; the signals do again what they did before.
  ~SignalThread();
  SignalThread(const SignalThread&) = delete;
  SignalThread& operator=(const SignalThread&) = delete;

 private:
  sigset_t watched_{};
  sigset_t before_{};
  std::thread thread_;
};

}  // namespace isotone::cli
