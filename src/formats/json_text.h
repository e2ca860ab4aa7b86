// JSON of configuration files: parsing with duplicate keys refused, and fields fetched with messages that name them.
// Included by sources only: the JSON library is slow to compile.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace isotone {

using Json = nlohmann::ordered_json;

/// Parses a whole text; `what` (a path) stands in front of every message. Refuses duplicate keys, depth beyond 64,
/// text after the value, invalid UTF-8.
Json parse_json(std::string_view text, const std::string& what);

/// Message of the JSON library without its exception codes.
std::string json_error_text(const std::exception& error);

/// Text of a value on one line; invalid UTF-8 is replaced, so it never throws.
std::string json_line(const Json& value);
/// The same on several lines.
std::string json_pretty(const Json& value);

}  // namespace isotone
