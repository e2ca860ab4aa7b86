// The reduce kernels for neon.
#if defined(__aarch64__)
#include "backends/cpu/kernels/reduce_impl.h"
#include "backends/cpu/kernels/vec_neon.h"

namespace isotone::cpu {

const ReduceTable& reduce_neon() {
  static constexpr ReduceTable table = make_reduce_table<Neon>();
  return table;
}

}  // namespace isotone::cpu
#endif
