// The one exception type of Isotone, and the short way to throw it with a formatted message.
// A message says what was asked, what was found and what to do about it.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace isotone {

/// Every failure that a caller can act on. `what()` is a whole sentence or several, ready to print.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(message) {}

  /// The same error with `where` in front ("model.safetensors: tensor 'x': ..."), for rethrowing with context.
  [[nodiscard]] Error in(const std::string& where) const { return Error(where + ": " + what()); }
};

/// Throws `Error` with a message in fmt's syntax.
template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

/// Throws unless `condition` holds. The arguments are evaluated either way: keep them cheap.
template <class... Args>
void require(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) [[unlikely]] {
    throw Error(fmt::format(format, std::forward<Args>(args)...));
  }
}

}  // namespace isotone
