#include "cli/common_interrupt.h"

#include <cstdlib>

namespace isotone::cli {

Interrupts::Interrupts()
    : signals_({SIGINT}, [this](int) {
        const std::lock_guard lock(mutex_);
        if (!answering_) {
          std::_Exit(130);  // nothing to stop yet: a model is being loaded, and nothing is written
        }
        source_.request_stop();
      }) {}

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
