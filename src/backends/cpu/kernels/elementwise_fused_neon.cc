// The elementwise_fused kernels for neon.
#if defined(__aarch64__)
#include "backends/cpu/kernels/elementwise_fused_impl.h"
#include "backends/cpu/kernels/vec_neon.h"

namespace isotone::cpu {

const FusedTable& elementwise_fused_neon() {
  static constexpr FusedTable table = make_elementwise_fused_table<Neon>();
  return table;
}

}  // namespace isotone::cpu
#endif
