// The smallest device there is: it holds memory and takes no operation. Copy it to begin a backend.
#pragma once

#include "device/device.h"

namespace isotone::device {

/// compile() succeeds for graphs without instructions and names the first operation otherwise.
std::unique_ptr<Device> make_null_device();

}  // namespace isotone::device
