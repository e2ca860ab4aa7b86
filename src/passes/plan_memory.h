// Places buffers with known lifetimes in one arena, so that memory is reused after its last reader.
#pragma once

#include <cstddef>
#include <vector>

namespace isotone::passes {

/// A buffer that is alive from step `first` to step `last`, both included.
struct Lifetime {
  std::size_t bytes = 0;
  int first = 0;
  int last = 0;
};

struct MemoryPlan {
  std::vector<std::size_t> offsets;  // one per buffer, multiples of 64
  std::size_t arena_bytes = 0;
  std::size_t peak_live_bytes = 0;  // the most that is alive at once: the arena cannot be smaller
};

/// Largest first, each at the lowest offset where nothing alive at the same time lies.
MemoryPlan plan_memory(const std::vector<Lifetime>& buffers);

}  // namespace isotone::passes
