// The reduce kernels for avx2.
#if defined(__x86_64__)
#include "backends/cpu/kernels/reduce_impl.h"
#include "backends/cpu/kernels/vec_avx2.h"

namespace isotone::cpu {

const ReduceTable& reduce_avx2() {
  static constexpr ReduceTable table = make_reduce_table<Avx2>();
  return table;
}

}  // namespace isotone::cpu
#endif
