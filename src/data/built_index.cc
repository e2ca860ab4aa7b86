// data.json: what a folder of built data holds.
#include "base/error.h"
#include "data/built.h"
#include "formats/json_text.h"

namespace isotone::data {

namespace {

constexpr int kFormat = 1;
constexpr std::int64_t kMost = std::int64_t{1} << 60;

const Json& at(const Json& object, const char* key) {
  require(object.is_object() && object.contains(key), "there is no '{}'", key);
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
  require(v.is_string(), "'{}' is {}, not a text", key, json_line(v).substr(0, 40));
  return v.get<std::string>();
}

const Json& list(const Json& object, const char* key) {
  const Json& v = at(object, key);
  require(v.is_array(), "'{}' is no list", key);
  return v;
}

BuiltSource source_of(const Json& j) {
  BuiltSource s;
  s.name = text(j, "name");
  s.kind = text(j, "kind");
  s.field = text(j, "field");
  s.documents = whole(j, "documents", 1, kMost);
  s.tokens = whole(j, "tokens", 1, kMost);
  s.grains = whole(j, "grains", 1, kMost);
  s.sha256 = text(j, "sha256");
  for (const Json& f : list(j, "files")) {
    s.files.push_back({text(f, "path"), static_cast<std::uint64_t>(whole(f, "bytes", 0, INT64_MAX)),
                       whole(f, "modified_ns", INT64_MIN, INT64_MAX), text(f, "sha256")});
  }
  for (const Json& shard : list(j, "shards")) {
    require(shard.is_string(), "'shards' holds {}", json_line(shard).substr(0, 40));
    const auto name = shard.get<std::string>();
    require(name.ends_with(".grains") && name.find('/') == std::string::npos, "'{}' is no shard's name", name);
    s.shards.push_back(name);
  }
  return s;
}

}  // namespace

std::string index_json(const BuiltIndex& index) {
  Json j{{"format", kFormat},
         {"grain_tokens", index.grain_tokens},
         {"tokenizer", index.tokenizer},
         {"template", index.chat_template}};
  j["sources"] = Json::array();
  for (const BuiltSource& s : index.sources) {
    Json files = Json::array();
    for (const InputFile& f : s.files) {
      files.push_back(Json{{"path", f.path}, {"bytes", f.bytes}, {"modified_ns", f.modified_ns}, {"sha256", f.sha256}});
    }
    j["sources"].push_back(Json{{"name", s.name},
                                {"kind", s.kind},
                                {"field", s.field},
                                {"documents", s.documents},
                                {"tokens", s.tokens},
                                {"grains", s.grains},
                                {"sha256", s.sha256},
                                {"files", files},
                                {"shards", s.shards}});
  }
  return json_pretty(j) + "\n";
}

BuiltIndex read_index(const std::string& folder) {
  const std::string path = join_path(folder, kIndexFile);
  require(path_exists(path), "{}: there is no {}, so this is no built data; isotone data build makes it", folder,
          kIndexFile);
  const std::string content = read_text_file(path);
  try {
    const Json j = parse_json(content, "the text");
    const std::int64_t format = whole(j, "format", 1, INT32_MAX);
    require(format == kFormat, "it has format {}, this program reads format {}", format, kFormat);
    BuiltIndex index;
    index.grain_tokens = whole(j, "grain_tokens", 64, 1 << 20);
    index.tokenizer = text(j, "tokenizer");
    index.chat_template = text(j, "template");
    for (const Json& s : list(j, "sources")) {
      index.sources.push_back(source_of(s));
    }
    return index;
  } catch (const Error& e) {
    fail("{}: the index is damaged: {}; build the data again", path, e.what());
  }
}

}  // namespace isotone::data
