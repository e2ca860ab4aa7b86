#include "base/text_distance.h"

#include <algorithm>

namespace isotone {

std::size_t text_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) {
    row[j] = j;
  }
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t next = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      diagonal = row[j];
      row[j] = next;
    }
  }
  return row[b.size()];
}

std::string nearest_text(std::string_view text, const std::vector<std::string>& names) {
  const auto best = std::min_element(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
    return text_distance(a, text) < text_distance(b, text);
  });
  return best == names.end() ? "" : *best;
}

}  // namespace isotone
