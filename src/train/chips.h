// What is public about chips that models are trained on.
#pragma once

#include <string>
#include <vector>

#include "dist/communicator.h"

namespace isotone::train {

/// Of one chip. Operations, bytes, and both a second.
struct Chip {
  std::string name;
  double bf16 = 0.0, fp8 = 0.0;  ///< dense, of the data sheet; fp8 0: it has none
  double matmul = 0.0;           ///< what matrix products in bf16 reach for long
  double matmul_fp8 = 0.0;
  double attention = 0.0;  ///< what fused attention in bf16 reaches
  double memory = 0.0, memory_bandwidth = 0.0;
  double link = 0.0;     ///< to the chips of its node, one direction
  int chips_a_node = 1;  ///< that are linked so
};

/// By name, upper or lower case: "H100". Throws Error with the names.
const Chip& chip_of(const std::string& name);
std::vector<std::string> chip_names();

/// This machine as one chip, measured for about half a second: matrix products in f32 and copies on all threads. Its
/// link is copies too.
Chip measure_machine();
/// What each of some ranks on one machine has of it.
void share_machine(Chip& machine, int ranks);

}  // namespace isotone::train
