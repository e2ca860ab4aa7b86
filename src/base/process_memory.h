// Memory that this process holds.
#pragma once

#include <cstddef>

namespace isotone {

/// Bytes of this process that lie in the machine's memory now; 0 where the system does not say.
std::size_t resident_bytes();

}  // namespace isotone
