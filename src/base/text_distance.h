// "Did you mean": the nearest of several names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace isotone {

/// Least number of letters to insert, delete or change (Levenshtein, 1965).
std::size_t text_distance(std::string_view a, std::string_view b);

/// The name nearest to `text`, the first where several are; empty where there are none.
std::string nearest_text(std::string_view text, const std::vector<std::string>& names);

}  // namespace isotone
