// UTF-8 well-formedness by table 3-7 of the Unicode standard.
#include "text/utf8.h"

namespace isotone::text {
namespace {

struct Step {
  std::size_t length;  ///< bytes of the sequence, or of its longest valid beginning
  bool whole;
  bool cut;  ///< valid so far, but the text ends inside it
};

Step next_sequence(std::string_view s) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(s[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) {
    return {1, true, false};
  }
  std::size_t need = 0;
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  if (first >= 0xC2 && first <= 0xDF) {
    need = 2;
  } else if (first >= 0xE0 && first <= 0xEF) {
    need = 3;
    low = first == 0xE0 ? 0xA0 : 0x80;
    high = first == 0xED ? 0x9F : 0xBF;
  } else if (first >= 0xF0 && first <= 0xF4) {
    need = 4;
    low = first == 0xF0 ? 0x90 : 0x80;
    high = first == 0xF4 ? 0x8F : 0xBF;
  } else {
    return {1, false, false};
  }
  for (std::size_t i = 1; i < need; ++i) {
    if (i == s.size()) {
      return {i, false, true};
    }
    if (byte(i) < low || byte(i) > high) {
      return {i, false, false};
    }
    low = 0x80;
    high = 0xBF;
  }
  return {need, true, false};
}

}  // namespace

std::size_t incomplete_tail(std::string_view bytes) {
  // A sequence that is cut begins within the last three bytes, at its lead byte.
  for (std::size_t back = 1; back <= 3 && back <= bytes.size(); ++back) {
    const std::string_view tail = bytes.substr(bytes.size() - back);
    if ((static_cast<unsigned char>(tail[0]) & 0xC0U) != 0x80U) {
      const Step step = next_sequence(tail);
      return step.cut && step.length == back ? back : 0;
    }
  }
  return 0;
}

std::string repair_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const Step step = next_sequence(bytes);
    if (step.whole) {
      out.append(bytes.substr(0, step.length));
    } else {
      out.append("\xEF\xBF\xBD");
    }
    bytes.remove_prefix(step.length);
  }
  return out;
}

}  // namespace isotone::text
