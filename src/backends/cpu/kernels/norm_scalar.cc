// The norm kernels for scalar.
#include "backends/cpu/kernels/norm_impl.h"
#include "backends/cpu/kernels/vec_pair.h"

namespace isotone::cpu {

const NormTable& norm_scalar() {
  static constexpr NormTable table = make_norm_table<Lanes>();
  return table;
}

}  // namespace isotone::cpu
