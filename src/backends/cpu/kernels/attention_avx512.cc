// The attention tiles in AVX-512.
#if defined(__x86_64__)
#define ISOTONE_ATTENTION_AVX512
#include "backends/cpu/kernels/attention_tiles_impl.h"

namespace isotone::cpu::attention {

const Tiles* tiles_avx512() {
  return make_table<false>();
}

}  // namespace isotone::cpu::attention
#endif
