// Values of a recipe's TOML, checked; messages begin with `where`. Included by the sources that read recipes only:
// toml++ is slow to compile.
#pragma once

#include <toml++/toml.h>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "train/recipe.h"

namespace isotone::train {

using Setter = std::function<void(const toml::node& value, const std::string& where)>;
using Setters = std::map<std::string, Setter>;

std::int64_t toml_integer(const toml::node& v, const std::string& where, std::int64_t low, std::int64_t high);
double toml_real(const toml::node& v, const std::string& where, double low, double high);
std::string toml_text(const toml::node& v, const std::string& where);
std::string toml_choice(const toml::node& v, const std::string& where, const std::vector<std::string>& allowed);
std::vector<std::string> toml_texts(const toml::node& v, const std::string& where);

/// Hands each key of a table to its setter; one that there is none for is an error that names the nearest. `prefix`
/// ends in a dot and is part of the setters' names.
void read_table(const toml::table& table, const std::string& prefix, const std::string& name, const Setters& known);

/// [data.sources.NAME] and [data.stages.NAME].
void read_sources(const toml::node& node, const std::string& name, Recipe& recipe);
void read_stages(const toml::node& node, const std::string& name, Recipe& recipe);
/// What of [data] can only be checked once all is read.
void check_data(const std::string& name, Recipe& recipe);

}  // namespace isotone::train
