// The norm kernels for avx512.
#if defined(__x86_64__)
#include "backends/cpu/kernels/norm_impl.h"
#include "backends/cpu/kernels/vec_avx512.h"

namespace isotone::cpu {

const NormTable& norm_avx512() {
  static constexpr NormTable table = make_norm_table<Avx512>();
  return table;
}

}  // namespace isotone::cpu
#endif
