#include "cli/common_signals.h"

#include <pthread.h>

namespace isotone::cli {

namespace {
constexpr int kWake = SIGUSR2;  // from the destructor to the waiting thread
}  // namespace

SignalThread::SignalThread(std::initializer_list<int> signals, std::function<void(int)> on_signal) {
  sigemptyset(&watched_);
  sigaddset(&watched_, kWake);
  for (const int s : signals) {
    sigaddset(&watched_, s);
  }
  pthread_sigmask(SIG_BLOCK, &watched_, &before_);
  thread_ = std::thread([set = watched_, on_signal = std::move(on_signal)] {
    int signal = 0;
    while (sigwait(&set, &signal) == 0 && signal != kWake) {
      on_signal(signal);
    }
  });
}

SignalThread::~SignalThread() {
  pthread_kill(thread_.native_handle(), kWake);
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace isotone::cli
