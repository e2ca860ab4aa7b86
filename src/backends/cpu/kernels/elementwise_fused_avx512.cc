// The elementwise_fused kernels for avx512.
#if defined(__x86_64__)
#include "backends/cpu/kernels/elementwise_fused_impl.h"
#include "backends/cpu/kernels/vec_avx512.h"

namespace isotone::cpu {

const FusedTable& elementwise_fused_avx512() {
  static constexpr FusedTable table = make_elementwise_fused_table<Avx512>();
  return table;
}

}  // namespace isotone::cpu
#endif
