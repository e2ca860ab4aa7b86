// The contraction kernels for any processor, one lane.
#include "backends/cpu/kernels/contract_vec_scalar.h"
// The vector type comes first.
#include "backends/cpu/kernels/contract_pack.h"

namespace isotone::cpu {

const KernelTable& kernels_scalar() {
  static constexpr KernelTable table = make_table<VecScalar>();
  return table;
}

}  // namespace isotone::cpu
