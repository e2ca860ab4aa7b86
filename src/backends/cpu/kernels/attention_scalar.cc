// The attention tiles in plain C++, one lane.
#include "backends/cpu/kernels/attention_tiles_impl.h"

namespace isotone::cpu::attention {

const Tiles* tiles_scalar() {
  return make_table<false>();
}

}  // namespace isotone::cpu::attention
