// A rank that talks to nobody: the only one of a run in one process, or one that is only planned.
#pragma once

#include "base/error.h"
#include "dist/communicator.h"

namespace isotone::dist {

class SilentRank : public Communicator {
 public:
  explicit SilentRank(int rank = 0, int size = 1) : rank_(rank), size_(size) {
    require(0 <= rank && rank < size, "there is no rank {} among {}", rank, size);
  }
  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  void send(int to, Message) override { fail("rank {} of {} has no way to rank {}", rank_, size_, to); }
  [[nodiscard]] Message receive(int from) override { fail("rank {} of {} has no way to rank {}", rank_, size_, from); }
  [[nodiscard]] CallLog& calls() override { return calls_; }

 private:
  int rank_;
  int size_;
  CallLog calls_;
};

}  // namespace isotone::dist
