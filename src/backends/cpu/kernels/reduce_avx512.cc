// The reduce kernels for avx512.
#if defined(__x86_64__)
#include "backends/cpu/kernels/reduce_impl.h"
#include "backends/cpu/kernels/vec_avx512.h"

namespace isotone::cpu {

const ReduceTable& reduce_avx512() {
  static constexpr ReduceTable table = make_reduce_table<Avx512>();
  return table;
}

}  // namespace isotone::cpu
#endif
