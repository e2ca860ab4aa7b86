// The attention tiles in AVX2 with FMA and F16C.
#if defined(__x86_64__)
#define ISOTONE_ATTENTION_AVX2
#include "backends/cpu/kernels/attention_tiles_impl.h"

namespace isotone::cpu::attention {

const Tiles* tiles_avx2() {
  return make_table<false>();
}

}  // namespace isotone::cpu::attention
#endif
