// The elementwise kernels for scalar.
#include "backends/cpu/kernels/elementwise_impl.h"
#include "backends/cpu/kernels/vec_pair.h"

namespace isotone::cpu {

const ElementwiseTable& elementwise_scalar() {
  static constexpr ElementwiseTable table = make_elementwise_table<Lanes>();
  return table;
}

}  // namespace isotone::cpu
