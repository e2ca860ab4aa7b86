// Where ranks leave their addresses for each other: named values kept by rank 0, over TCP.
#pragma once

#include <chrono>
#include <memory>
#include <string>

namespace isotone::dist {

/// The server; lives on rank 0. Answers on threads of its own until it is destroyed.
class MeetingPoint {
 public:
  /// Listens on `host`, a name or address of this machine. Throws Error where it cannot.
  MeetingPoint(const std::string& host, int port);
  ~MeetingPoint();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// One rank's way to it.
class MeetingGuest {
 public:
  /// Tries until `timeout` is over; throws Error then.
  MeetingGuest(std::string host, int port, std::chrono::milliseconds timeout);
  void set(const std::string& key, const std::string& value) const;
  /// Waits for the key; throws Error naming it after the timeout.
  [[nodiscard]] std::string get(const std::string& key) const;
  /// This machine's address on the way there: where others that meet there can reach it.
  [[nodiscard]] const std::string& own_address() const { return own_address_; }

 private:
  [[nodiscard]] std::string ask(const std::string& request) const;
  std::string host_;
  int port_;
  std::chrono::milliseconds timeout_;
  std::string own_address_;
};

}  // namespace isotone::dist
