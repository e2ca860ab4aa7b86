#include "base/process_memory.h"

#include <unistd.h>

#include <fstream>

namespace isotone {

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");  // in pages: all of the address space, then what is resident (proc(5))
  std::size_t all = 0, resident = 0;
  file >> all >> resident;
  return file ? resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) : 0;
}

}  // namespace isotone
