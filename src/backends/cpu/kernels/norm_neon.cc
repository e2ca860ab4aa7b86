// The norm kernels for neon.
#if defined(__aarch64__)
#include "backends/cpu/kernels/norm_impl.h"
#include "backends/cpu/kernels/vec_neon.h"

namespace isotone::cpu {

const NormTable& norm_neon() {
  static constexpr NormTable table = make_norm_table<Neon>();
  return table;
}

}  // namespace isotone::cpu
#endif
