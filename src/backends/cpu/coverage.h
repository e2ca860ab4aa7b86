// What runs an operation on this backend: a kernel, the operations it is made of, or its scalar reference.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/device.h"

namespace isotone::cpu {

/// Counts of calls (samples, or instructions of compiled graphs) of one operation.
struct OpCoverage {
  std::string name;
  int kernel = 0;
  int reference = 0;
  int decomposed = 0;
};

/// Of every operation's samples, by name.
std::vector<OpCoverage> coverage_of_samples();

/// The CPU device, which also counts the instructions of every graph that it compiles into `found` (by name). `found`
/// must outlive the device.
std::shared_ptr<device::Device> make_watched_device(std::vector<OpCoverage>& found);

}  // namespace isotone::cpu
