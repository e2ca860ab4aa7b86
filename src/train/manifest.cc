#include "train/manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "formats/json_text.h"

namespace isotone::train {
namespace {

constexpr int kFormat = 1;
/// Of all other keys, so that a wrong bit in a step or a count of tokens shows too; none in manifests of older
/// programs.
constexpr const char* kOwnChecksum = "manifest_sha256";
constexpr std::size_t kMostBytes = std::size_t{128} << 20;
/// Far above every run, and far below where a sum would overflow.
constexpr std::int64_t kMostSteps = 1'000'000'000'000, kMostTokens = std::int64_t{1} << 60;

const Json& at(const Json& object, const char* key) {
  require(object.contains(key), "there is no '{}'", key);
  return object[key];
}

std::int64_t whole(const Json& object, const char* key, std::int64_t low, std::int64_t high) {
  const Json& v = at(object, key);
  require(v.is_number_integer() && !(v.is_number_unsigned() && v.get<std::uint64_t>() > INT64_MAX),
          "'{}' is {}, not a whole number", key, json_line(v).substr(0, 40));
  const auto n = v.get<std::int64_t>();
  require(n >= low && n <= high, "'{}' is {}; it must be from {} to {}", key, n, low, high);
  return n;
}

std::string text(const Json& object, const char* key) {
  const Json& v = at(object, key);
  require(v.is_string() && !v.get_ref<const std::string&>().empty() && v.get_ref<const std::string&>().size() <= 128,
          "'{}' is {}, not a text of 1 to 128 bytes", key, json_line(v).substr(0, 40));
  return v.get<std::string>();
}

bool is_sha256(const Json& v) {
  if (!v.is_string()) {
    return false;
  }
  const auto& s = v.get_ref<const std::string&>();
  return s.size() == 64 && s.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::map<std::string, std::string> checksums(const Json& object, const char* key) {
  const Json& all = at(object, key);
  require(all.is_object(), "'{}' is no object of checksums", key);
  std::map<std::string, std::string> out;
  for (const auto& [name, hash] : all.items()) {
    require(is_sha256(hash), "the checksum of '{}' is {}, not 64 hexadecimal digits", name,
            json_line(hash).substr(0, 40));
    out[name] = hash.get<std::string>();
  }
  return out;
}

RecipeFields fields_of(const Json& manifest, const char* name) {
  if (!manifest.contains(name)) {
    return {};
  }
  const Json& object = manifest[name];
  require(object.is_object(), "'{}' is no object", name);
  RecipeFields out;
  for (const auto& [key, value] : object.items()) {
    const bool list =
        value.is_array() && std::all_of(value.begin(), value.end(), [](const Json& item) { return item.is_string(); });
    require(list || value.is_string() || value.is_number(), "'{}' has {} for '{}'", name,
            json_line(value).substr(0, 40), key);
    out[key] = json_line(value);
  }
  return out;
}

std::string checksum_of(nlohmann::json manifest) {
  manifest.erase(kOwnChecksum);
  return sha256_hex(manifest.dump(1));
}

Manifest parse(const std::string& content) {
  const Json j = parse_json(content, "the text");
  require(j.is_object(), "it is no JSON object");
  Manifest m;
  const std::int64_t format = whole(j, "format", 1, INT32_MAX);
  require(format == kFormat, "it has format {}, this program reads format {}: use a newer program", format, kFormat);
  require(!j.contains(kOwnChecksum) || j[kOwnChecksum] == checksum_of(nlohmann::json::parse(content)),
          "its checksum of itself differs");
  m.numerics = static_cast<int>(whole(j, "numerics", 1, INT32_MAX));
  m.profile = j.contains("profile") ? text(j, "profile") : "pairdot-1";  // before there was another, none was named
  m.step = whole(j, "step", 0, kMostSteps);
  m.tokens = whole(j, "tokens", 0, kMostTokens);
  m.recipe = text(j, "recipe");
  m.tensors = checksums(j, "sha256");
  if (j.contains("files")) {
    m.files = checksums(j, "files");
  }
  m.fields = fields_of(j, "recipe_fields");
  m.contents = fields_of(j, "data");
  if (j.contains("earlier_recipes")) {
    require(j["earlier_recipes"].is_array(), "'earlier_recipes' is no list");
    for (const Json& e : j["earlier_recipes"]) {
      require(e.is_object(), "'earlier_recipes' holds {}", json_line(e).substr(0, 40));
      m.earlier.push_back({text(e, "recipe"), whole(e, "steps", 0, kMostSteps)});
    }
  }
  return m;
}

std::string shortened(const std::string& value) {
  constexpr std::size_t kMost = 80;
  return value.size() <= kMost ? value : value.substr(0, kMost - 3) + "...";
}

}  // namespace

Manifest read_manifest(const std::string& folder) {
  require(path_exists(folder), "{}: there is no such checkpoint", folder);
  require(is_folder(folder), "{}: is a file; a checkpoint is a folder", folder);
  const std::string path = join_path(folder, kManifestFile);
  require(path_exists(path), "{}: there is no manifest.json, so this is no complete checkpoint", folder);
  const std::string content = read_text_file(path, kMostBytes);
  try {
    return parse(content);
  } catch (const Error& e) {
    fail("{}: the manifest is damaged: {}", path, e.what());
  }
}

std::string manifest_json(const Manifest& m) {
  nlohmann::json j{{"format", kFormat},  {"numerics", m.numerics}, {"profile", m.profile}, {"step", m.step},
                   {"tokens", m.tokens}, {"recipe", m.recipe},     {"sha256", m.tensors},  {"files", m.files}};
  for (const auto& [name, fields] : {std::pair{"recipe_fields", &m.fields}, {"data", &m.contents}}) {
    j[name] = nlohmann::json::object();
    for (const auto& [key, value] : *fields) {
      j[name][key] = nlohmann::json::parse(value);
    }
  }
  for (const EarlierRecipe& e : m.earlier) {
    j["earlier_recipes"].push_back({{"recipe", e.fingerprint}, {"steps", e.steps}});
  }
  j[kOwnChecksum] = checksum_of(j);
  return j.dump(1);
}

std::string recipe_differences(const RecipeFields& there, const RecipeFields& here) {
  std::map<std::string, std::pair<std::string, std::string>> all;
  for (const auto& [key, value] : there) {
    all[key] = {value, "nothing"};
  }
  for (const auto& [key, value] : here) {
    all.try_emplace(key, "nothing", "").first->second.second = value;
  }
  std::string out;
  for (const auto& [key, values] : all) {
    if (values.first != values.second) {
      out += fmt::format("{}{} is {} there and {} here", out.empty() ? "" : "; ", key, shortened(values.first),
                         shortened(values.second));
    }
  }
  return out;
}

}  // namespace isotone::train
