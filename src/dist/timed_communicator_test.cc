#include "dist/timed_communicator.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "dist/in_process.h"

namespace isotone::dist {
namespace {

TEST(TimedCommunicator, CountsWaitsAndBytes) {
  run_in_process(2, [](Communicator& r) {
    Timeline timeline(100);
    TimedCommunicator timed(r, &timeline);
    EXPECT_EQ(timed.rank(), r.rank());
    EXPECT_EQ(timed.size(), 2);
    const int other = 1 - timed.rank();
    if (timed.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
    }
    timed.send(other, Message(1000));
    EXPECT_EQ(timed.receive(other).size(), 1000U);
    timed.send(other, Message(7));
    EXPECT_EQ(timed.receive(other).size(), 7U);
    EXPECT_EQ(timed.traffic().sent, 1007U);
    EXPECT_EQ(timed.traffic().received, 1007U);
    EXPECT_EQ(timed.traffic().messages, 4);
    if (timed.rank() == 0) {
      EXPECT_GT(timed.traffic().nanoseconds, 20'000'000) << "it waited for the other's sleep";
    }
    std::int64_t sum = 0;
    for (const Stretch& s : timeline.stretches()) {
      EXPECT_EQ(s.work, Work::communication);
      EXPECT_EQ(s.peer, other);
      sum += s.end - s.begin;
    }
    EXPECT_EQ(sum, timed.traffic().nanoseconds);
    EXPECT_EQ(timeline.stretches().back().bytes, 7U);
  });
}

}  // namespace
}  // namespace isotone::dist
