// The elementwise kernels for avx512.
#if defined(__x86_64__)
#include "backends/cpu/kernels/elementwise_impl.h"
#include "backends/cpu/kernels/vec_avx512.h"

namespace isotone::cpu {

const ElementwiseTable& elementwise_avx512() {
  static constexpr ElementwiseTable table = make_elementwise_table<Avx512>();
  return table;
}

}  // namespace isotone::cpu
#endif
