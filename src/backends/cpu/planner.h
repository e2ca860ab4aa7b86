// Turns a graph into a CPU plan: memory for every value, views instead of copies, steps in order.
#pragma once

#include <map>

#include "backends/cpu/lowering.h"
#include "device/device.h"

namespace isotone::cpu {

/// What ISOTONE_PROFILE asks for: 0 nothing, 1 time by operation, 2 by operation and types.
int profile_level();

/// A step with the operation it belongs to (with its types at level 2), for the profile.
struct NamedStep {
  std::string name;
  Step run;
};

struct Plan {
  std::size_t root_count = 0;
  std::vector<int> input_roots;                           // by graph input
  std::vector<bool> donated;                              // by graph input
  std::vector<std::pair<int, std::size_t>> arena_roots;   // root, offset in the arena
  std::vector<std::pair<int, std::size_t>> output_roots;  // root, bytes: a fresh buffer a run
  std::vector<int> results;                               // by graph output: the root that is returned
  std::vector<NamedStep> steps;
  device::MemoryReport memory;
};

class Planner {
 public:
  Planner(const ir::Graph& graph, const device::CompileOptions& options);
  Plan plan();

 private:
  friend class Lowering;
  enum class Kind { input, donated_input, arena, output };
  struct Root {
    Kind kind;
    std::size_t bytes;
    int first;
    int last;
  };

  int add_root(Kind kind, std::size_t bytes, int first, int last);
  Arg& value(ir::ValueId v) { return values_[static_cast<std::size_t>(v)]; }
  void place(ir::ValueId v, Arg arg);
  Arg contiguous_copy(const Arg& from, int now);

  const ir::Graph& graph_;
  std::shared_ptr<ops::Transport> transport_;
  std::vector<int> last_uses_;
  std::vector<bool> is_output_;
  std::vector<Arg> values_;
  std::vector<Root> roots_;
  std::vector<NamedStep> steps_;
};

/// Copies any strided tensor to a contiguous one of its type.
void copy_strided(const Arg& from, const std::byte* source, std::byte* target);

}  // namespace isotone::cpu
