// The attention tiles in NEON.
#if defined(__aarch64__)
#define ISOTONE_ATTENTION_NEON
#include "backends/cpu/kernels/attention_tiles_impl.h"

namespace isotone::cpu::attention {

const Tiles* tiles_neon() {
  return make_table<false>();
}

}  // namespace isotone::cpu::attention
#endif
