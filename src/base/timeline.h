// What a rank did when: named stretches of time, the newest kept. Where nobody looks there is no Timeline, and a Timed
// over none does nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace isotone {

/// Nanoseconds of the clock that never goes back; its zero is the machine's.
std::int64_t clock_ns();

enum class Work { compute, communication, data, checkpoint };
const char* work_name(Work work);

struct Stretch {
  const char* name = "";  ///< a literal
  Work work = Work::compute;
  std::int64_t begin = 0, end = 0;  ///< clock_ns()
  int peer = -1;                    ///< the other rank of a message
  std::size_t bytes = 0;            ///< of that message
};

/// For one thread.
class Timeline {
 public:
  /// Of more than `capacity` stretches the oldest are forgotten.
  explicit Timeline(std::size_t capacity);
  void add(const Stretch& stretch);
  /// In the order they were added: a stretch comes after those within it.
  [[nodiscard]] std::vector<Stretch> stretches() const;
  [[nodiscard]] std::size_t forgotten() const { return added_ - ring_.size(); }

 private:
  std::size_t capacity_, added_ = 0;
  std::vector<Stretch> ring_;
};

/// Adds the time from here to the end of the block.
class Timed {
 public:
  Timed(Timeline* timeline, const char* name, Work work);
  ~Timed();
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  Timeline* timeline_;
  Stretch stretch_;
};

}  // namespace isotone
