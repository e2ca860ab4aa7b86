// The kernels of another instruction set, for computing something a second time on other units of the same chip.
#pragma once

#include <functional>

namespace isotone::cpu {

/// Calls `body` while a smaller instruction set is in use (scalar code where there is no smaller one), then goes back.
/// No kernel may run on another thread meanwhile.
void with_other_kernels(const std::function<void()>& body);

}  // namespace isotone::cpu
