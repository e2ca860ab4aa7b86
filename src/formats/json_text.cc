// Duplicate keys are found by the parser's callback, which sees each key with its depth.
#include "formats/json_text.h"

#include <set>
#include <vector>

#include "base/error.h"

namespace isotone {

std::string json_error_text(const std::exception& error) {
  const std::string text = error.what();
  const std::size_t end = text.rfind("] ", text.find("] ") + 1);
  return end == std::string::npos ? text : text.substr(end + 2);
}

Json parse_json(std::string_view text, const std::string& what) {
  constexpr int kMaxDepth = 64;
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int depth, Json::parse_event_t event, Json& parsed) {
    require(depth <= kMaxDepth, "{}: JSON nested more than {} deep", what, kMaxDepth);
    switch (event) {
      case Json::parse_event_t::object_start:
        keys.emplace_back();
        break;
      case Json::parse_event_t::object_end:
        keys.pop_back();
        break;
      case Json::parse_event_t::key:
        if (!keys.back().insert(parsed.get<std::string>()).second) {
          fail("{}: the key {} stands twice in one object", what, json_line(parsed));
        }
        break;
      default:
        break;
    }
    return true;
  };
  try {
    return Json::parse(text, check);
  } catch (const Json::exception& error) {
    fail("{}: not valid JSON: {}", what, json_error_text(error));
  }
}

std::string json_line(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}
std::string json_pretty(const Json& value) {
  return value.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace isotone
