// The elementwise_fused kernels for avx2.
#if defined(__x86_64__)
#include "backends/cpu/kernels/elementwise_fused_impl.h"
#include "backends/cpu/kernels/vec_avx2.h"

namespace isotone::cpu {

const FusedTable& elementwise_fused_avx2() {
  static constexpr FusedTable table = make_elementwise_fused_table<Avx2>();
  return table;
}

}  // namespace isotone::cpu
#endif
