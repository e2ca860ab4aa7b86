// The one place that knows devices by name.
#include "isotone/isotone.h"

#include "backends/cpu/device.h"
#include "device/interpreter.h"

namespace isotone {

void use_device(std::string_view name) {
  if (name == "cpu") {
    set_default_device(cpu::make_cpu_device());
  } else if (name == "interpreter") {
    set_default_device(device::make_interpreter());
  } else {
    fail("device '{}' is not known; there are cpu and interpreter (slow: the definition of every bit)", name);
  }
}

}  // namespace isotone
