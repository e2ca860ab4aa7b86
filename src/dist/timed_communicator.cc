#include "dist/timed_communicator.h"

namespace isotone::dist {

void TimedCommunicator::send(int to, Message message) {
  const std::int64_t begin = clock_ns();
  const std::size_t bytes = message.size();
  inner_.send(to, std::move(message));
  traffic_.sent += bytes;
  count("send", to, bytes, begin);
}

Message TimedCommunicator::receive(int from) {
  const std::int64_t begin = clock_ns();
  Message message = inner_.receive(from);
  traffic_.received += message.size();
  count("receive", from, message.size(), begin);
  return message;
}

void TimedCommunicator::count(const char* name, int peer, std::size_t bytes, std::int64_t begin) {
  const std::int64_t end = clock_ns();
  traffic_.nanoseconds += end - begin;
  ++traffic_.messages;
  if (timeline_ != nullptr) {
    timeline_->add({name, Work::communication, begin, end, peer, bytes});
  }
}

}  // namespace isotone::dist
