// The contraction kernels for AVX2 with FMA.
#if defined(__x86_64__)
#include "backends/cpu/kernels/contract_vec_avx2.h"
// The vector type comes first.
#include "backends/cpu/kernels/contract_pack.h"

namespace isotone::cpu {

const KernelTable& kernels_avx2() {
  static constexpr KernelTable table = make_table<VecAvx2>();
  return table;
}

}  // namespace isotone::cpu
#endif
