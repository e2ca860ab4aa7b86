// For tests: what an Error says.
#pragma once

#include <functional>
#include <string>

#include "base/error.h"

namespace isotone {

/// The message of the Error that `f` throws; empty where it throws none. Any other exception goes through.
inline std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

}  // namespace isotone
