// The elementwise kernels for avx2.
#if defined(__x86_64__)
#include "backends/cpu/kernels/elementwise_impl.h"
#include "backends/cpu/kernels/vec_avx2.h"

namespace isotone::cpu {

const ElementwiseTable& elementwise_avx2() {
  static constexpr ElementwiseTable table = make_elementwise_table<Avx2>();
  return table;
}

}  // namespace isotone::cpu
#endif
