// The contraction kernels for Armv8 NEON.
#if defined(__aarch64__)
#include "backends/cpu/kernels/contract_vec_neon.h"
// The vector type comes first.
#include "backends/cpu/kernels/contract_pack.h"

namespace isotone::cpu {

const KernelTable& kernels_neon() {
  static constexpr KernelTable table = make_table<VecNeon>();
  return table;
}

}  // namespace isotone::cpu
#endif
