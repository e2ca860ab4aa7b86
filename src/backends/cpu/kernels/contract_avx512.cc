// The contraction kernels for AVX-512; flags in folder.cmake.
#if defined(__x86_64__)
#include "backends/cpu/kernels/contract_vec_avx512.h"
// The vector type comes first.
#include "backends/cpu/kernels/contract_pack.h"

namespace isotone::cpu {

const KernelTable& kernels_avx512() {
  static constexpr KernelTable table = make_table<VecAvx512<false>>();
  return table;
}

}  // namespace isotone::cpu
#endif
