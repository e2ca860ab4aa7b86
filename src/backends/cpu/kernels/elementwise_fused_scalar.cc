// The elementwise_fused kernels for scalar.
#include "backends/cpu/kernels/elementwise_fused_impl.h"
#include "backends/cpu/kernels/vec_pair.h"

namespace isotone::cpu {

const FusedTable& elementwise_fused_scalar() {
  static constexpr FusedTable table = make_elementwise_fused_table<Lanes>();
  return table;
}

}  // namespace isotone::cpu
