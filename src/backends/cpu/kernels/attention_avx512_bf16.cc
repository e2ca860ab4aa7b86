// The attention tiles in AVX-512 with the bf16 pair-dot.
#if defined(__x86_64__)
#define ISOTONE_ATTENTION_AVX512
#include "backends/cpu/kernels/attention_tiles_impl.h"

namespace isotone::cpu::attention {

const Tiles* tiles_avx512_bf16() {
  return make_table<true>();
}

}  // namespace isotone::cpu::attention
#endif
