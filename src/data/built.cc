#include "data/built.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "data/object_store.h"

namespace isotone::data {

std::string index_json(const BuiltIndex& index);

namespace {

std::string template_sha256(const BuildPlan& plan) {
  const bool needed =
      std::any_of(plan.sources.begin(), plan.sources.end(), [](const SourceSpec& s) { return s.kind == "chat"; });
  return needed && !plan.encoder.chat.empty() ? sha256_hex(plan.encoder.chat.source()) : "";
}

/// What a source without a name is called where it needs one.
std::string shard_prefix(const std::string& name) {
  return name.empty() ? "data" : name;
}

/// An object's ETag stands for its contents: reading them would cost what building costs.
InputFile input_file(const std::string& path) {
  if (is_object_url(path)) {
    const StoredObject object = ObjectStore(store_settings()).look(path);
    return {path, object.bytes, 0, object.etag};
  }
  return {path, file_size(path), modified_ns(path), sha256_of_file(path)};
}

bool unchanged(const InputFile& old) {
  if (is_object_url(old.path)) {
    const InputFile now = input_file(old.path);
    return now.bytes == old.bytes && now.sha256 == old.sha256;
  }
  return file_size(old.path) == old.bytes &&
         (modified_ns(old.path) == old.modified_ns || sha256_of_file(old.path) == old.sha256);
}

std::string why_source_stale(const BuiltSource& was, const SourceSpec& now) {
  const std::string which = now.name.empty() ? "" : fmt::format("source '{}': ", now.name);
  if (was.kind != now.kind || (has_field(now.kind) && was.field != now.field)) {
    return fmt::format("{}its kind or field is another one", which);
  }
  const std::vector<std::string> files = files_of(now);
  if (files.size() != was.files.size()) {
    return fmt::format("{}it has {} files, not {}", which, files.size(), was.files.size());
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    const InputFile& old = was.files[i];
    if (files[i] != old.path) {
      return fmt::format("{}{} stands where {} was", which, files[i], old.path);
    }
    if (!unchanged(old)) {
      return fmt::format("{}{} has changed", which, files[i]);
    }
  }
  return "";
}

/// Only an empty folder or one of built data may be replaced.
void check_place(const std::string& folder) {
  if (!path_exists(folder)) {
    return;
  }
  require(is_folder(folder), "{}: is a file; built data is a folder", folder);
  const std::vector<std::string> names = list_folder(folder);
  const bool ours = std::find(names.begin(), names.end(), kIndexFile) != names.end();
  for (const std::string& name : names) {
    require(ours && (name == kIndexFile || name.ends_with(".grains")),
            "{}: holds {}, which is no built data; choose a new or empty folder", folder, name);
  }
}

BuiltSource build_source(const std::string& folder, const SourceSpec& spec, const BuildPlan& plan,
                         std::uint64_t shard_bytes) {
  BuiltSource out;
  out.name = spec.name;
  out.kind = spec.kind;
  out.field = spec.field;
  std::optional<ShardWriter> writer;
  Sha256 hash;
  Packer packer(plan.grain_tokens, [&](std::span<const std::uint32_t> words) {
    if (!writer.has_value()) {
      out.shards.push_back(fmt::format("{}-{:05d}.grains", shard_prefix(spec.name), out.shards.size()));
      writer.emplace(join_path(folder, out.shards.back()), plan.grain_tokens);
    }
    writer->add(words);
    hash.update(std::as_bytes(words));
    ++out.grains;
    if (writer->bytes() >= shard_bytes) {
      writer->finish();
      writer.reset();
    }
  });
  for (const std::string& path : files_of(spec)) {
    const InputFile before = input_file(path);
    read_file(spec, path, plan.encoder, [&](const Document& d) { packer.add(d); });
    require(is_object_url(path) || modified_ns(path) == before.modified_ns,
            "{}: was changed while it was read; build the data again", path);
    out.files.push_back(before);
  }
  try {
    packer.finish();
  } catch (const Error& e) {
    throw e.in(fmt::format("{}", fmt::join(spec.files, ", ")));
  }
  if (writer.has_value()) {
    writer->finish();
  }
  out.documents = packer.documents();
  out.tokens = packer.packed_tokens();
  out.sha256 = hash.hex();
  return out;
}

}  // namespace

const BuiltSource& BuiltIndex::source(const std::string& name) const {
  const auto at = std::find_if(sources.begin(), sources.end(), [&](const BuiltSource& s) { return s.name == name; });
  require(at != sources.end(), "built data has no source '{}'", name);
  return *at;
}

std::string tokenizer_sha256(const text::Tokenizer& tokenizer) {
  return sha256_hex(fmt::format("{}\n{}", tokenizer.eos_id().value_or(-1), tokenizer.to_json()));
}

std::string why_stale(const BuiltIndex& index, const BuildPlan& plan) {
  if (index.grain_tokens != plan.grain_tokens) {
    return fmt::format("it has grains of {} tokens, not {}", index.grain_tokens, plan.grain_tokens);
  }
  if (index.tokenizer != tokenizer_sha256(plan.encoder.tokenizer)) {
    return "the tokenizer is another one";
  }
  if (index.chat_template != template_sha256(plan)) {
    return "the chat template is another one";
  }
  if (index.sources.size() != plan.sources.size()) {
    return fmt::format("there are {} sources, not {}", plan.sources.size(), index.sources.size());
  }
  for (std::size_t i = 0; i < plan.sources.size(); ++i) {
    if (index.sources[i].name != plan.sources[i].name) {
      return fmt::format("the source '{}' is not in it", plan.sources[i].name);
    }
    if (std::string why = why_source_stale(index.sources[i], plan.sources[i]); !why.empty()) {
      return why;
    }
  }
  return "";
}

BuiltIndex build(const std::string& folder, const BuildPlan& plan, std::uint64_t shard_bytes) {
  check_place(folder);
  AsideFolder aside(folder);
  BuiltIndex index;
  index.grain_tokens = plan.grain_tokens;
  index.tokenizer = tokenizer_sha256(plan.encoder.tokenizer);
  index.chat_template = template_sha256(plan);
  for (const SourceSpec& spec : plan.sources) {
    index.sources.push_back(build_source(aside.aside(), spec, plan, shard_bytes));
  }
  write_file_atomic(join_path(aside.aside(), kIndexFile), index_json(index));
  aside.commit();
  return index;
}

std::shared_ptr<const Grains> open_built(const std::string& folder, const BuiltIndex& index, const std::string& name) {
  const BuiltSource& source = index.source(name);
  std::vector<std::string> paths;
  for (const std::string& shard : source.shards) {
    paths.push_back(join_path(folder, shard));
  }
  return std::make_shared<ShardedGrains>(paths, index.grain_tokens, source.grains);
}

}  // namespace isotone::data
