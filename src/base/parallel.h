// Threads for kernels: one pool of spinning workers that share out indices. Work is split over outputs only,
// so the number of threads never shows in a result.
#pragma once

#include <cstdint>
#include <type_traits>

namespace isotone {

/// Sets the number of threads that kernels use, the caller included (default: ISOTONE_THREADS, else the cores this
/// process may run on). Not to be called while a kernel runs.
void set_thread_count(int count);
int thread_count();

/// Flushes subnormals to zero for the life of the object (x86: FTZ and DAZ; Arm: FPCR.FZ) and restores the caller's
/// mode afterwards. Every kernel thread and every reference runs under one.
class FlushSubnormals {
 public:
  FlushSubnormals();
  ~FlushSubnormals();
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;

 private:
  std::uint64_t saved_;
};

namespace detail {
using Task = void (*)(void* closure, std::int64_t begin, std::int64_t end, int worker);
void run_parallel(std::int64_t count, std::int64_t grain, Task task, void* closure);
}  // namespace detail

/// Calls `body(begin, end, worker)` over disjoint ranges that cover [0, count). `grain` is the smallest range worth a
/// hand-over; ranges are handed out dynamically. Runs inline when called from inside another parallel region, with one
/// thread, or where count <= grain. `worker` is in [0, thread_count()). Bodies run under FlushSubnormals and must not
/// throw (an exception ends the process: validate before).
template <class Body>
void parallel_for(std::int64_t count, std::int64_t grain, Body&& body) {
  detail::run_parallel(
      count, grain,
      [](void* closure, std::int64_t begin, std::int64_t end, int worker) {
        (*static_cast<std::remove_reference_t<Body>*>(closure))(begin, end, worker);
      },
      const_cast<void*>(static_cast<const void*>(&body)));
}

}  // namespace isotone
