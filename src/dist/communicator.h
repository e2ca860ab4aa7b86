// What ranks say to each other: messages between two of them, in order.
#pragma once

#include <cstddef>
#include <vector>

#include "base/error.h"
#include "dist/call_log.h"

namespace isotone::dist {

using Message = std::vector<std::byte>;

/// Another rank is gone, late or elsewhere: nothing is wrong with what this one was asked to do.
class RankLost : public Error {
 public:
  using Error::Error;
};

/// One rank's end. Messages from one rank to another arrive in the order they were sent; sending does not wait for the
/// receiver. RankLost where the other side has
/// failed.
class Communicator {
 public:
  virtual ~Communicator() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  virtual void send(int to, Message message) = 0;
  [[nodiscard]] virtual Message receive(int from) = 0;
  /// What this rank is doing. A message is for the call that it was sent from: a rank that receives it in another one
  /// throws Error naming both.
  [[nodiscard]] virtual CallLog& calls() = 0;
};

}  // namespace isotone::dist
