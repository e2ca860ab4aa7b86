// The pool: every index once, nested and concurrent callers, the flush mode, sleeping workers.
#include "base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/kernel_log.h"

namespace isotone {
namespace {

void check_covers(std::int64_t count, std::int64_t grain) {
  std::vector<std::atomic<int>> seen(static_cast<std::size_t>(count));
  parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end, int worker) {
    EXPECT_GE(worker, 0);
    EXPECT_LT(worker, thread_count());
    for (std::int64_t i = begin; i < end; ++i) {
      seen[static_cast<std::size_t>(i)].fetch_add(1);
    }
  });
  for (const auto& s : seen) {
    ASSERT_EQ(s.load(), 1);
  }
}

TEST(Parallel, EveryIndexOnce) {
  const int before = thread_count();
  for (const int threads : {1, 2, 3, 8}) {
    set_thread_count(threads);
    EXPECT_EQ(thread_count(), threads);
    for (const std::int64_t count : {0, 1, 2, 7, 100, 1000}) {
      for (const std::int64_t grain : {0, 1, 3, 64}) {
        check_covers(count, grain);
      }
    }
  }
  set_thread_count(before);
  EXPECT_THROW(set_thread_count(0), Error);
}

TEST(Parallel, ManyShortRegions) {
  set_thread_count(2);
  std::int64_t total = 0;
  for (int i = 0; i < 20000; ++i) {
    std::atomic<std::int64_t> sum{0};
    parallel_for(4, 1, [&](std::int64_t begin, std::int64_t end, int) { sum.fetch_add(end - begin); });
    total += sum.load();
  }
  EXPECT_EQ(total, 80000);
}

TEST(Parallel, NestedRunsInline) {
  std::atomic<int> count{0};
  parallel_for(8, 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto id = std::this_thread::get_id();
      parallel_for(10, 1, [&](std::int64_t b, std::int64_t e, int) {
        EXPECT_EQ(std::this_thread::get_id(), id);
        count.fetch_add(static_cast<int>(e - b));
      });
    }
  });
  EXPECT_EQ(count.load(), 80);
}

TEST(Parallel, SeveralHostThreads) {
  set_thread_count(2);
  std::vector<std::thread> hosts;
  std::atomic<std::int64_t> total{0};
  for (int h = 0; h < 4; ++h) {
    hosts.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        parallel_for(100, 1, [&](std::int64_t begin, std::int64_t end, int) { total.fetch_add(end - begin); });
      }
    });
  }
  for (std::thread& host : hosts) {
    host.join();
  }
  EXPECT_EQ(total.load(), 4 * 500 * 100);
}

TEST(Parallel, WakesSleepingWorkersAndIdlesQuietly) {
  set_thread_count(2);
  for (int i = 0; i < 5; ++i) {
    check_covers(1000, 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  timespec before{};
  timespec after{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
  const double used =
      static_cast<double>(after.tv_sec - before.tv_sec) + 1e-9 * static_cast<double>(after.tv_nsec - before.tv_nsec);
  EXPECT_LT(used, 0.2);  // a spinning worker would have used 0.4 s
}

TEST(Parallel, FlushesSubnormalsInsideAndRestores) {
  volatile float tiny = 1e-30F;
  volatile float factor = 1e-12F;
  std::atomic<int> kept{0};
  parallel_for(64, 1, [&](std::int64_t, std::int64_t, int) { kept.fetch_add(tiny * factor != 0.0F ? 1 : 0); });
  EXPECT_EQ(kept.load(), 0);
  EXPECT_NE(tiny * factor, 0.0F);
}

TEST(KernelLog, CountsOnlyWhenOn) {
  log_kernel("x");
  set_kernel_log(true);
  EXPECT_TRUE(kernel_log().empty());
  log_kernel("b");
  log_kernel("a");
  log_kernel("b");
  EXPECT_EQ(kernel_calls("b"), 2);
  ASSERT_EQ(kernel_log().size(), 2U);
  EXPECT_EQ(kernel_log()[0].first, "a");
  set_kernel_log(false);
  log_kernel("b");
  EXPECT_EQ(kernel_calls("b"), 2);
}

}  // namespace
}  // namespace isotone
