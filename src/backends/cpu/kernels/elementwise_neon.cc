// The elementwise kernels for neon.
#if defined(__aarch64__)
#include "backends/cpu/kernels/elementwise_impl.h"
#include "backends/cpu/kernels/vec_neon.h"

namespace isotone::cpu {

const ElementwiseTable& elementwise_neon() {
  static constexpr ElementwiseTable table = make_elementwise_table<Neon>();
  return table;
}

}  // namespace isotone::cpu
#endif
