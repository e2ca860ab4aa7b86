// The CPU backend: canonical kernels for every instruction set, chosen at run time.
#pragma once

#include "device/device.h"

namespace isotone::cpu {

std::shared_ptr<device::Device> make_cpu_device();

}  // namespace isotone::cpu
