// What ranks say to each other: messages between two of them, in order.
#pragma once

#include <cstddef>
#include <vector>

namespace isotone::dist {

using Message = std::vector<std::byte>;

/// One rank's end. Messages from one rank to another arrive in the order they were sent; sending does not wait for the
/// receiver. An Error where the other side has failed.
class Communicator {
 public:
  virtual ~Communicator() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  virtual void send(int to, Message message) = 0;
  [[nodiscard]] virtual Message receive(int from) = 0;
};

}  // namespace isotone::dist
