// A rank that counts what its messages cost.
#pragma once

#include "base/timeline.h"
#include "dist/communicator.h"

namespace isotone::dist {

struct Traffic {
  std::int64_t nanoseconds = 0;        ///< spent in handing messages over and in waiting for them
  std::size_t sent = 0, received = 0;  ///< bytes
  std::int64_t messages = 0;           ///< of both directions
};

/// `inner`, watched. Each message is also a stretch of the timeline, where there is one. For one thread; both must
/// outlive it.
class TimedCommunicator : public Communicator {
 public:
  explicit TimedCommunicator(Communicator& inner, Timeline* timeline = nullptr) : inner_(inner), timeline_(timeline) {}
  [[nodiscard]] int rank() const override { return inner_.rank(); }
  [[nodiscard]] int size() const override { return inner_.size(); }
  void send(int to, Message message) override;
  [[nodiscard]] Message receive(int from) override;
  [[nodiscard]] CallLog& calls() override { return inner_.calls(); }

  /// Since the beginning.
  [[nodiscard]] const Traffic& traffic() const { return traffic_; }

 private:
  void count(const char* name, int peer, std::size_t bytes, std::int64_t begin);
  Communicator& inner_;
  Timeline* timeline_;
  Traffic traffic_;
};

}  // namespace isotone::dist
