#include "train/recipe_toml.h"

#include <algorithm>

#include "base/error.h"
#include "base/text_distance.h"

namespace isotone::train {

std::int64_t toml_integer(const toml::node& v, const std::string& where, std::int64_t low, std::int64_t high) {
  require(v.is_integer(), "{} must be a whole number", where);
  const std::int64_t n = **v.as_integer();
  require(n >= low && n <= high, "{} is {}; it must be from {} to {}", where, n, low, high);
  return n;
}

double toml_real(const toml::node& v, const std::string& where, double low, double high) {
  require(v.is_number(), "{} must be a number", where);
  const double d = v.is_integer() ? static_cast<double>(**v.as_integer()) : **v.as_floating_point();
  require(d >= low && d <= high, "{} is {}; it must be from {} to {}", where, d, low, high);
  return d;
}

std::string toml_text(const toml::node& v, const std::string& where) {
  require(v.is_string(), "{} must be a text in quotes", where);
  return **v.as_string();
}

std::string toml_choice(const toml::node& v, const std::string& where, const std::vector<std::string>& allowed) {
  const std::string s = toml_text(v, where);
  require(std::find(allowed.begin(), allowed.end(), s) != allowed.end(), "{} is '{}'; choose one of: {}", where, s,
          fmt::join(allowed, ", "));
  return s;
}

std::vector<std::string> toml_texts(const toml::node& v, const std::string& where) {
  require(v.is_array(), "{} must be a list of texts", where);
  std::vector<std::string> out;
  for (const toml::node& item : *v.as_array()) {
    out.push_back(toml_text(item, where));
  }
  return out;
}

void read_table(const toml::table& table, const std::string& prefix, const std::string& name, const Setters& known) {
  for (const auto& [key, value] : table) {
    const std::string full = prefix + std::string(key.str());
    const auto it = known.find(full);
    if (it == known.end()) {
      std::vector<std::string> names;
      for (const auto& [k, setter] : known) {
        names.push_back(k);
      }
      fail("{}, line {}: there is no key '{}'; did you mean '{}'?", name, key.source().begin.line, full,
           nearest_text(full, names));
    }
    it->second(value, fmt::format("{}, line {}: {}", name, key.source().begin.line, full));
  }
}

}  // namespace isotone::train
