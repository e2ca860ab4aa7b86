// The pool behind parallel_for: workers spin for about a millisecond after their last region, then sleep on a futex.
// A region waits only for workers that entered it, so a worker that is asleep or descheduled never delays a short one.
#include "base/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace isotone {
namespace {

constexpr int kMaxThreads = 1024;
constexpr std::chrono::microseconds kSpinTime{1500};

void cpu_relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

thread_local bool inside_region = false;

int default_thread_count() {
  if (const char* text = std::getenv("ISOTONE_THREADS"); text != nullptr && *text != 0) {
    char* end = nullptr;
    const long value = std::strtol(text, &end, 10);
    require(*end == 0 && value >= 1 && value <= kMaxThreads,
            "ISOTONE_THREADS is '{}'; it must be a whole number from 1 to {}", text, kMaxThreads);
    return static_cast<int>(value);
  }
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    return std::max(1, CPU_COUNT(&set));
  }
  return std::max(1U, std::thread::hardware_concurrency());
}

class Pool {
 public:
  explicit Pool(int threads) {
    workers_.reserve(static_cast<std::size_t>(threads - 1));
    for (int i = 1; i < threads; ++i) {
      workers_.emplace_back([this, i] { work(i); });
    }
  }

  ~Pool() {
    stop_.store(true);
    wake_.fetch_add(1);
    wake_.notify_all();
    for (std::thread& worker : workers_) {
      worker.join();
    }
  }

  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  /// False where another host thread holds the pool: the caller then runs the work itself.
  bool try_run(std::int64_t count, std::int64_t grain, detail::Task task, void* closure) {
    std::unique_lock<std::mutex> lock(caller_, std::try_to_lock);
    if (!lock.owns_lock()) {
      return false;
    }
    task_ = task;
    closure_ = closure;
    count_ = count;
    grain_ = grain;
    next_.store(0, std::memory_order_relaxed);
    done_.store(0, std::memory_order_relaxed);
    ++epoch_;
    gate_.store((static_cast<std::uint64_t>(epoch_) << 32) | kOpen, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) > 0) {
      wake_.fetch_add(1);
      wake_.notify_all();
    }
    share(0);
    const std::uint64_t gate = gate_.fetch_and(~kOpen, std::memory_order_acq_rel);
    const std::uint32_t entered = static_cast<std::uint32_t>(gate) & 0xffffU;
    for (int spins = 0; done_.load(std::memory_order_acquire) != entered; ++spins) {
      spins < 20000 ? cpu_relax() : std::this_thread::yield();
    }
    return true;
  }

 private:
  // The gate: epoch in the upper half; below it an open bit and the number of workers that entered.
  static constexpr std::uint64_t kOpen = 1ULL << 31;

  void share(int worker) {
    const std::int64_t threads = this->threads();
    inside_region = true;
    std::int64_t begin = next_.load(std::memory_order_relaxed);
    while (begin < count_) {
      const std::int64_t left = count_ - begin;
      const std::int64_t size = std::min(left, std::max(grain_, left / (2 * threads)));
      if (next_.compare_exchange_weak(begin, begin + size, std::memory_order_relaxed)) {
        task_(closure_, begin, begin + size, worker);
        begin = next_.load(std::memory_order_relaxed);
      }
    }
    inside_region = false;
  }

  bool enter(std::uint32_t& seen) {
    std::uint64_t gate = gate_.load(std::memory_order_seq_cst);
    while (static_cast<std::uint32_t>(gate >> 32) != seen) {
      if ((gate & kOpen) == 0) {
        seen = static_cast<std::uint32_t>(gate >> 32);
        return false;
      }
      if (gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acq_rel)) {
        seen = static_cast<std::uint32_t>(gate >> 32);
        return true;
      }
    }
    return false;
  }

  void work(int index) {
    const FlushSubnormals flush;
    std::uint32_t seen = 0;
    using Clock = std::chrono::steady_clock;
    Clock::time_point idle_since = Clock::now();
    for (int spins = 1; !stop_.load(std::memory_order_relaxed); ++spins) {
      if (enter(seen)) {
        share(index);
        done_.fetch_add(1, std::memory_order_release);
        idle_since = Clock::now();
        continue;
      }
      cpu_relax();
      if (spins % 256 == 0 && Clock::now() - idle_since > kSpinTime) {
        sleepers_.fetch_add(1, std::memory_order_seq_cst);
        const std::uint32_t ticket = wake_.load(std::memory_order_seq_cst);
        const std::uint32_t epoch = static_cast<std::uint32_t>(gate_.load(std::memory_order_seq_cst) >> 32);
        if (epoch == seen && !stop_.load()) {
          wake_.wait(ticket);
        }
        sleepers_.fetch_sub(1, std::memory_order_seq_cst);
        idle_since = Clock::now();
      }
    }
  }

  std::mutex caller_;
  detail::Task task_ = nullptr;
  void* closure_ = nullptr;
  std::int64_t count_ = 0;
  std::int64_t grain_ = 1;
  std::uint32_t epoch_ = 0;
  alignas(64) std::atomic<std::uint64_t> gate_{0};
  alignas(64) std::atomic<std::int64_t> next_{0};
  alignas(64) std::atomic<std::uint32_t> done_{0};
  alignas(64) std::atomic<std::uint32_t> sleepers_{0};
  std::atomic<std::uint32_t> wake_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
};

struct PoolHolder {
  std::unique_ptr<Pool> pool = std::make_unique<Pool>(default_thread_count());
};

PoolHolder& holder() {
  static PoolHolder instance;
  return instance;
}

}  // namespace

void set_thread_count(int count) {
  require(count >= 1 && count <= kMaxThreads, "a thread count of {} was asked for; it must be from 1 to {}", count,
          kMaxThreads);
  PoolHolder& h = holder();
  if (h.pool->threads() != count) {
    h.pool.reset();
    h.pool = std::make_unique<Pool>(count);
  }
}

int thread_count() {
  return holder().pool->threads();
}

#if defined(__x86_64__)
FlushSubnormals::FlushSubnormals() : saved_(_mm_getcsr()) {
  _mm_setcsr(static_cast<unsigned>(saved_) | 0x8040U);
}
FlushSubnormals::~FlushSubnormals() {
  _mm_setcsr(static_cast<unsigned>(saved_));
}
#elif defined(__aarch64__)
FlushSubnormals::FlushSubnormals() : saved_(0) {
  asm volatile("mrs %0, fpcr" : "=r"(saved_));
  asm volatile("msr fpcr, %0" ::"r"(saved_ | (1ULL << 24)) : "memory");
}
FlushSubnormals::~FlushSubnormals() {
  asm volatile("msr fpcr, %0" ::"r"(saved_) : "memory");
}
#else
#error "FlushSubnormals: this processor has no flush mode written down yet"
#endif

namespace detail {

void run_parallel(std::int64_t count, std::int64_t grain, Task task, void* closure) {
  if (count <= 0) {
    return;
  }
  const FlushSubnormals flush;
  grain = std::max<std::int64_t>(grain, 1);
  if (count > grain && !inside_region) {
    Pool& pool = *holder().pool;
    if (pool.threads() > 1 && pool.try_run(count, grain, task, closure)) {
      return;
    }
  }
  task(closure, 0, count, 0);
}

}  // namespace detail
}  // namespace isotone
