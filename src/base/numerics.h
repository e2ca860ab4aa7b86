// The numerics profile of the process: the order of a contraction leaf's inner step (docs/numerics.md, section 3).
// Everything else of the contract is common to all profiles.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace isotone {

/// `pairdot_1` is the default. `amx_1` sums bf16 leaves in blocks of 32, as tile units do; it has the same bits on
/// every processor, by emulation where there are no tiles.
enum class NumericsProfile { pairdot_1, amx_1 };

/// "pairdot-1" or "amx-1".
std::string_view numerics_profile_name(NumericsProfile profile);

/// The names of all profiles.
std::vector<std::string> numerics_profile_names();

/// The profile with this name; throws Error listing the names otherwise.
NumericsProfile parse_numerics_profile(std::string_view name);

/// The profile that this process runs under: what ISOTONE_NUMERICS names, else pairdot-1. Throws Error where that
/// variable names none.
NumericsProfile numerics_profile();

/// Use `profile` from now on: what a command line or a recipe asks for. Not to be called while anything is computed.
void set_numerics_profile(NumericsProfile profile);

/// Elements in a block of a bf16 leaf under amx-1.
inline constexpr std::int64_t kProfileBlock = 32;

/// A bf16 leaf under amx-1, by definition: `step(i, acc)` gives fmaf(a[i], b[i], acc) for i in [0, length). Blocks of
/// 32 elements, each a chain over its even and one over its odd elements, added even plus odd, then to the leaf.
template <class Step>
float block_leaf(std::int64_t length, const Step& step) {
  float leaf = 0.0F;
  for (std::int64_t begin = 0; begin < length; begin += kProfileBlock) {
    float even = 0.0F;
    float odd = 0.0F;
    for (std::int64_t i = begin; i < begin + kProfileBlock && i < length; i += 2) {
      even = step(i, even);
      odd = i + 1 < length ? step(i + 1, odd) : odd;
    }
    leaf = leaf + (even + odd);
  }
  return leaf;
}

}  // namespace isotone
