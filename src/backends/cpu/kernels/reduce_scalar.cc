// The reduce kernels for scalar.
#include "backends/cpu/kernels/reduce_impl.h"
#include "backends/cpu/kernels/vec_pair.h"

namespace isotone::cpu {

const ReduceTable& reduce_scalar() {
  static constexpr ReduceTable table = make_reduce_table<Lanes>();
  return table;
}

}  // namespace isotone::cpu
