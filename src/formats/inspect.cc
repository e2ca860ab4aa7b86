// One visitor walks the tensors of either format; listing and hashing are two uses of it.
#include "formats/inspect.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "formats/gguf.h"
#include "formats/json_text.h"
#include "formats/sharded.h"

namespace isotone {
namespace {

constexpr std::uint64_t kListedElements = 8;

/// The opened files of a path; exactly one member is set.
struct Opened {
  std::unique_ptr<Gguf> gguf;
  std::unique_ptr<Safetensors> single;
  std::unique_ptr<SafetensorsFolder> folder;
};

std::string base_name(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

Opened open_any(const std::string& path) {
  Opened o;
  if (is_folder(path)) {
    o.folder = std::make_unique<SafetensorsFolder>(path);
    return o;
  }
  const MappedFile file(path);
  const auto bytes = file.bytes();
  const bool gguf = bytes.size() >= 4 && bytes[0] == std::byte{'G'} && bytes[1] == std::byte{'G'} &&
                    bytes[2] == std::byte{'U'} && bytes[3] == std::byte{'F'};
  if (gguf || path.ends_with(".gguf")) {
    o.gguf = std::make_unique<Gguf>(path);
  } else {
    o.single = std::make_unique<Safetensors>(path);
  }
  return o;
}

using Visit = std::function<void(const InspectedTensor&, std::span<const std::byte>)>;

void visit_safetensors(const Safetensors& file, const SafetensorsEntry& e, const Visit& visit) {
  visit({e.name, e.dtype_text, e.shape, e.bytes(), base_name(file.path())}, file.data(e));
}

/// In name order.
void visit_tensors(const Opened& o, const Visit& visit) {
  if (o.gguf) {
    std::vector<const GgufTensor*> sorted;
    for (const GgufTensor& t : o.gguf->tensors()) {
      sorted.push_back(&t);
    }
    std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
    for (const GgufTensor* t : sorted) {
      visit({t->name, std::string(t->type_text), t->shape, t->bytes, base_name(o.gguf->path())}, o.gguf->data(*t));
    }
  } else if (o.folder) {
    for (const std::string& name : o.folder->names()) {
      const Safetensors& file = o.folder->file_of(name);
      visit_safetensors(file, *file.find(name), visit);
    }
  } else {
    std::vector<const SafetensorsEntry*> sorted;
    for (const SafetensorsEntry& e : o.single->entries()) {
      sorted.push_back(&e);
    }
    std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
    for (const SafetensorsEntry* e : sorted) {
      visit_safetensors(*o.single, *e, visit);
    }
  }
}

Json json_of_scalar(const GgufValue& v) {
  switch (v.type) {
    case GgufType::text:
      return std::string(v.as_text());
    case GgufType::boolean:
      return v.as_boolean();
    case GgufType::f32:
    case GgufType::f64:
      return v.as_number();
    case GgufType::u64:
      return v.as_unsigned();
    default:
      return v.as_integer();
  }
}

/// Arrays longer than kListedElements become {"array of": type, "count": n, "first": [...]}.
Json json_of_value(const GgufValue& v) {
  if (v.type != GgufType::array) {
    return json_of_scalar(v);
  }
  Json list = Json::array();
  for (std::uint64_t i = 0; i < std::min(v.count, kListedElements); ++i) {
    if (v.element == GgufType::text) {
      list.push_back(std::string(v.strings[i]));
    } else if (v.element == GgufType::array) {
      list.push_back(json_of_value(v.nested[i]));
    } else {
      list.push_back(json_of_scalar(v.at(i)));
    }
  }
  if (v.count <= kListedElements) {
    return list;
  }
  Json object = Json::object();
  object["array of"] = gguf_type_name(v.element);
  object["count"] = v.count;
  object["first"] = std::move(list);
  return object;
}

void add_string_map(Inspection& out, const StringMap& map) {
  for (const auto& [key, value] : map) {
    out.metadata.emplace_back(key, json_line(Json(value)));
  }
}

/// What a terminal could act on becomes \xNN.
std::string printable(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool c1 = c == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0;
    if (c < 0x20 || c == 0x7f || c1) {
      out += fmt::format("\\x{:02x}", c);
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string size_text(std::uint64_t bytes) {
  if (bytes < 10000) {
    return fmt::format("{} B", bytes);
  }
  double value = static_cast<double>(bytes);
  for (const char* unit : {"kB", "MB", "GB"}) {
    value /= 1000;
    if (value < 1000) {
      return fmt::format("{:.1f} {}", value, unit);
    }
  }
  return fmt::format("{:.1f} TB", value / 1000);
}

}  // namespace

Inspection describe(const std::string& path) {
  require(path_exists(path), "{}: no such file or folder", path);
  const Opened o = open_any(path);
  Inspection out;
  out.path = path;
  if (o.gguf) {
    out.format = fmt::format("GGUF v{}", o.gguf->version());
    for (const GgufValue& v : o.gguf->metadata()) {
      out.metadata.emplace_back(v.key, json_line(json_of_value(v)));
    }
    out.file_bytes = file_size(path);
  } else if (o.single) {
    out.format = "safetensors";
    add_string_map(out, o.single->metadata());
    out.file_bytes = file_size(path);
  } else {
    out.format = "folder of safetensors";
    for (const auto& file : o.folder->files()) {
      out.file_bytes += file_size(file->path());
    }
    const std::string config = join_path(path, "config.json");
    if (path_exists(config)) {
      const Json json = parse_json(read_text_file(config), config);
      require(json.is_object(), "{}: must be a JSON object", config);
      for (const auto& item : json.items()) {
        out.metadata.emplace_back(item.key(), json_line(item.value()));
      }
    }
    add_string_map(out, o.folder->files().front()->metadata());
  }
  visit_tensors(o, [&](const InspectedTensor& t, std::span<const std::byte>) {
    out.tensors.push_back(t);
    out.parameters += static_cast<std::uint64_t>(checked_elements(t.shape, t.name));
    out.tensor_bytes += t.bytes;
  });
  return out;
}

std::string to_json(const Inspection& in) {
  Json json = Json::object();
  json["path"] = in.path;
  json["format"] = in.format;
  Json& metadata = json["metadata"] = Json::object();
  for (const auto& [key, value] : in.metadata) {
    metadata[key] = Json::parse(value);
  }
  Json& tensors = json["tensors"] = Json::array();
  for (const InspectedTensor& t : in.tensors) {
    tensors.push_back({{"name", t.name}, {"dtype", t.dtype}, {"shape", t.shape}, {"bytes", t.bytes}, {"file", t.file}});
  }
  json["parameters"] = in.parameters;
  json["tensor_bytes"] = in.tensor_bytes;
  json["file_bytes"] = in.file_bytes;
  return json_pretty(json) + "\n";
}

std::string to_text(const Inspection& in) {
  std::string out =
      fmt::format("{}: {}, {} tensors, {} parameters, {} of tensors, {} in all\n", printable(in.path), in.format,
                  in.tensors.size(), in.parameters, size_text(in.tensor_bytes), size_text(in.file_bytes));
  constexpr std::size_t kMaxValue = 100;
  for (const auto& [key, value] : in.metadata) {
    std::size_t end = std::min(value.size(), kMaxValue);
    while (end < value.size() && (static_cast<unsigned char>(value[end]) & 0xc0U) == 0x80U) {
      --end;  // not within a character
    }
    const std::string shown = end == value.size() ? value : value.substr(0, end) + "...";
    out += fmt::format("  {:<44} {}\n", printable(key), printable(shown));
  }
  std::map<std::string, std::pair<std::size_t, std::uint64_t>> by_dtype;
  for (const InspectedTensor& t : in.tensors) {
    out += fmt::format("  {:<52} {:<8} {:<20} {:>10}\n", printable(t.name), t.dtype, shape_text(t.shape),
                       size_text(t.bytes));
    auto& [count, bytes] = by_dtype[t.dtype];
    ++count;
    bytes += t.bytes;
  }
  for (const auto& [dtype, total] : by_dtype) {
    out += fmt::format("  {} tensors of {}: {}\n", total.first, dtype, size_text(total.second));
  }
  return out;
}

std::string sha256_of_tensors(const std::string& path) {
  require(path_exists(path), "{}: no such file or folder", path);
  const Opened o = open_any(path);
  Sha256 hash;
  constexpr std::string_view kZero("\0", 1);
  visit_tensors(o, [&](const InspectedTensor& t, std::span<const std::byte> bytes) {
    hash.update(t.name).update(kZero).update(t.dtype).update(kZero).update(shape_text(t.shape)).update(kZero);
    hash.update(bytes);
  });
  return hash.hex();
}

}  // namespace isotone
