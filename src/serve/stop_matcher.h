// Finds stop strings in text that arrives in pieces, wherever the pieces are cut, and never lets a part of one through.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace isotone::serve {

class StopMatcher {
 public:
  /// Empty strings are refused with Error.
  explicit StopMatcher(std::vector<std::string> stops);

  /// Takes the next piece and returns what may be shown: everything up to the stop string that is complete first
  /// (so that the cuts do not matter), or up to the longest end that could still become one. After a match it returns
  /// nothing more.
  std::string push(std::string_view piece);
  /// What was held back when the text ends without a match.
  std::string finish();

  [[nodiscard]] bool matched() const { return matched_ >= 0; }
  /// The stop string found, or empty.
  [[nodiscard]] std::string_view stop() const { return matched() ? std::string_view(stops_[matched_]) : ""; }

 private:
  std::vector<std::string> stops_;
  int matched_ = -1;
  std::string held_;
};

}  // namespace isotone::serve
