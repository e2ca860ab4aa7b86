// Some of the ranks, counted among themselves.
#pragma once

#include <algorithm>

#include "base/error.h"
#include "dist/communicator.h"

namespace isotone::dist {

/// `members` of `world` in order, the calling rank among them. Holds a reference to `world`.
class Subgroup : public Communicator {
 public:
  Subgroup(Communicator& world, std::vector<int> members) : world_(world), members_(std::move(members)) {
    const auto me = std::find(members_.begin(), members_.end(), world.rank());
    require(me != members_.end(), "rank {} is not in this group of {}", world.rank(), members_.size());
    rank_ = static_cast<int>(me - members_.begin());
  }
  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return static_cast<int>(members_.size()); }
  void send(int to, Message message) override { world_.send(world_rank(to), std::move(message)); }
  [[nodiscard]] Message receive(int from) override { return world_.receive(world_rank(from)); }
  [[nodiscard]] CallLog& calls() override { return world_.calls(); }

 private:
  [[nodiscard]] int world_rank(int member) const { return members_.at(static_cast<std::size_t>(member)); }
  Communicator& world_;
  std::vector<int> members_;
  int rank_ = 0;
};

}  // namespace isotone::dist
