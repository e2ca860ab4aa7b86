#include "data/source.h"

#include "base/error.h"
#include "base/file.h"
#include "data/object_store.h"

namespace isotone::data {

namespace {

/// Deeper folders are a link that leads back up.
constexpr int kMostDepth = 32;

void add_folder(const std::string& folder, const std::string& ending, int depth, std::vector<std::string>& to) {
  require(depth < kMostDepth, "{}: folders lie more than {} deep; is there a link to a folder above?", folder,
          kMostDepth);
  for (const std::string& name : list_folder(folder)) {
    const std::string path = join_path(folder, name);
    if (name.starts_with(".") || is_aside_name(name)) {
      continue;
    }
    if (is_folder(path)) {
      add_folder(path, ending, depth + 1, to);
    } else if (name.ends_with(ending)) {
      to.push_back(path);
    }
  }
}

}  // namespace

std::vector<std::string> source_kinds() {
  return {"text", "jsonl", "parquet", "chat"};
}

bool has_field(const std::string& kind) {
  return kind == "jsonl" || kind == "parquet";
}

std::vector<std::string> files_of(const SourceSpec& spec) {
  const std::string ending = spec.kind == "text" ? "" : spec.kind == "parquet" ? ".parquet" : ".jsonl";
  std::vector<std::string> out;
  for (const std::string& path : spec.files) {
    if (is_object_url(path) && path.ends_with("/")) {
      const std::size_t before = out.size();
      for (const StoredObject& object : ObjectStore(store_settings()).list(path)) {
        if (object.url.ends_with(ending) && !object.url.ends_with("/") && object.url.find("/.") == std::string::npos) {
          out.push_back(object.url);
        }
      }
      require(out.size() > before, "{}: there is no object{} with this prefix", path,
              ending.empty() ? "" : " that ends in " + ending);
      continue;
    }
    if (is_object_url(path) || !is_folder(path)) {
      out.push_back(path);
      continue;
    }
    const std::size_t before = out.size();
    add_folder(path, ending, 0, out);
    require(out.size() > before, "{}: there is no file{} in this folder", path,
            ending.empty() ? "" : " that ends in " + ending);
  }
  return out;
}

void read_file(const SourceSpec& spec, const std::string& file, const Encoder& encoder, const DocumentSink& sink) {
  if (is_object_url(file)) {
    const std::string local = ObjectStore(store_settings()).fetch(file);
    try {
      read_file(spec, local, encoder, sink);
    } catch (const Error& e) {
      throw e.in(file);
    }
    return;
  }
  if (spec.kind == "chat") {
    read_chats(file, encoder.tokenizer, encoder.chat, sink);
  } else if (spec.kind == "jsonl") {
    read_jsonl(file, spec.field, encoder.tokenizer, sink);
  } else if (spec.kind == "parquet") {
    read_parquet(file, spec.field, encoder.tokenizer, sink);
  } else {
    read_text(file, encoder.tokenizer, sink);
  }
}

}  // namespace isotone::data
