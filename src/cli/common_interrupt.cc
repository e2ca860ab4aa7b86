// A thread that waits for SIGINT: unlike a signal handler it may lock and call anything.
#include "cli/common_interrupt.h"

#include <pthread.h>
#include <signal.h>

#include <cstdlib>
#include <ctime>

namespace isotone::cli {

namespace {
sigset_t interrupt_set() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  return set;
}
}  // namespace

Interrupts::Interrupts() {
  const sigset_t set = interrupt_set();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::jthread([this](const std::stop_token& stop) {
    const sigset_t waited = interrupt_set();
    const timespec pause{0, 100'000'000};  // how soon the end of the object is noticed
    while (!stop.stop_requested()) {
      if (sigtimedwait(&waited, nullptr, &pause) == SIGINT) {
        const std::lock_guard lock(mutex_);
        if (!answering_) {
          std::_Exit(130);  // nothing to stop yet: a model is being loaded, and nothing is written
        }
        source_.request_stop();
      }
    }
  });
}

Interrupts::~Interrupts() {
  thread_.request_stop();
  thread_.join();
  const sigset_t set = interrupt_set();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

std::stop_token Interrupts::next() {
  const std::lock_guard lock(mutex_);
  answering_ = true;
  source_ = std::stop_source();
  return source_.get_token();
}

bool Interrupts::interrupted() const {
  const std::lock_guard lock(mutex_);
  return source_.stop_requested();
}

}  // namespace isotone::cli
