// The norm kernels for avx2.
#if defined(__x86_64__)
#include "backends/cpu/kernels/norm_impl.h"
#include "backends/cpu/kernels/vec_avx2.h"

namespace isotone::cpu {

const NormTable& norm_avx2() {
  static constexpr NormTable table = make_norm_table<Avx2>();
  return table;
}

}  // namespace isotone::cpu
#endif
