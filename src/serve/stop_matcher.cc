// The matcher holds back the longest end of the text that begins a stop string; stops are few and short, so a plain
// search over the held text is enough.
#include "serve/stop_matcher.h"

#include <algorithm>

#include "base/error.h"

namespace isotone::serve {

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (const std::string& s : stops_) {
    require(!s.empty(), "stop: a stop string is empty; leave it out or give it text");
  }
}

std::string StopMatcher::push(std::string_view piece) {
  if (matched()) {
    return {};
  }
  held_ += piece;
  std::size_t first = 0;
  std::size_t end = std::string::npos;
  for (std::size_t i = 0; i < stops_.size(); ++i) {
    const std::size_t at = held_.find(stops_[i]);
    if (at == std::string::npos) {
      continue;
    }
    const std::size_t its_end = at + stops_[i].size();
    if (its_end < end || (its_end == end && at < first)) {
      first = at;
      end = its_end;
      matched_ = static_cast<int>(i);
    }
  }
  if (matched()) {
    std::string shown = held_.substr(0, first);
    held_.clear();
    return shown;
  }
  // Keep the longest end of the held text that is a proper beginning of a stop string.
  std::size_t keep = 0;
  for (const std::string& s : stops_) {
    for (std::size_t n = std::min(s.size() - 1, held_.size()); n > keep; --n) {
      if (held_.compare(held_.size() - n, n, s, 0, n) == 0) {
        keep = n;
        break;
      }
    }
  }
  // Cut between characters only: a stop string may share its first bytes with another character.
  std::size_t cut = held_.size() - keep;
  while (cut > 0 && cut < held_.size() && (static_cast<unsigned char>(held_[cut]) & 0xC0U) == 0x80U) {
    --cut;
  }
  std::string shown = held_.substr(0, cut);
  held_.erase(0, cut);
  return shown;
}

std::string StopMatcher::finish() {
  std::string rest = std::move(held_);
  held_.clear();
  return matched() ? std::string() : rest;
}

}  // namespace isotone::serve
