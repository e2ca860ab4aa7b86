// The oracle: runs every primitive by its scalar reference, one element after another. Slow and plain on purpose.
#pragma once

#include "device/device.h"

namespace isotone::device {

/// A device that takes primitives only; everything else reaches it decomposed.
std::unique_ptr<Device> make_interpreter();

}  // namespace isotone::device
