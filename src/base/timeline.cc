#include "base/timeline.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"

namespace isotone {

std::int64_t clock_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

const char* work_name(Work work) {
  switch (work) {
    case Work::compute:
      return "compute";
    case Work::communication:
      return "communication";
    case Work::data:
      return "data";
    case Work::checkpoint:
      break;
  }
  return "checkpoint";
}

Timeline::Timeline(std::size_t capacity) : capacity_(capacity) {
  require(capacity > 0, "a timeline needs room for at least one stretch");
}

void Timeline::add(const Stretch& stretch) {
  if (ring_.size() < capacity_) {
    ring_.push_back(stretch);
  } else {
    ring_[added_ % capacity_] = stretch;
  }
  ++added_;
}

std::vector<Stretch> Timeline::stretches() const {
  std::vector<Stretch> out = ring_;
  if (forgotten() > 0) {
    std::rotate(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(added_ % capacity_), out.end());
  }
  return out;
}

Timed::Timed(Timeline* timeline, const char* name, Work work) : timeline_(timeline) {
  if (timeline_ != nullptr) {
    stretch_ = {name, work, clock_ns()};
  }
}

Timed::~Timed() {
  if (timeline_ != nullptr) {
    stretch_.end = clock_ns();
    timeline_->add(stretch_);
  }
}

}  // namespace isotone
