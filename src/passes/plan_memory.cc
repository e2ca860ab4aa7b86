#include "passes/plan_memory.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace isotone::passes {

MemoryPlan plan_memory(const std::vector<Lifetime>& buffers) {
  constexpr std::size_t kAlign = 64;
  const auto rounded = [](std::size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; };
  MemoryPlan plan;
  plan.offsets.assign(buffers.size(), 0);
  std::map<int, std::ptrdiff_t> change;
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  std::vector<std::size_t> placed;  // ascending by offset
  for (const std::size_t i : order) {
    const Lifetime& mine = buffers[i];
    const std::size_t bytes = rounded(mine.bytes);
    change[mine.first] += static_cast<std::ptrdiff_t>(bytes);
    change[mine.last + 1] -= static_cast<std::ptrdiff_t>(bytes);
    std::size_t at = 0;
    for (const std::size_t other : placed) {
      const Lifetime& o = buffers[other];
      if (o.last < mine.first || mine.last < o.first) {
        continue;
      }
      if (plan.offsets[other] >= at + bytes) {
        break;
      }
      at = std::max(at, plan.offsets[other] + rounded(o.bytes));
    }
    plan.offsets[i] = at;
    plan.arena_bytes = std::max(plan.arena_bytes, at + bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), i,
                                   [&](std::size_t a, std::size_t b) { return plan.offsets[a] < plan.offsets[b]; }),
                  i);
  }
  std::ptrdiff_t live = 0;
  for (const auto& [step, delta] : change) {
    live += delta;
    plan.peak_live_bytes = std::max(plan.peak_live_bytes, static_cast<std::size_t>(std::max<std::ptrdiff_t>(live, 0)));
  }
  return plan;
}

}  // namespace isotone::passes
