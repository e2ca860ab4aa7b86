// Built data: sources tokenized and packed once, in a folder of shards with an index, whole or not there at all.
#pragma once

#include "data/shard.h"
#include "data/source.h"

namespace isotone::data {

/// What is built, and by what.
struct BuildPlan {
  std::int64_t grain_tokens = 0;
  std::vector<SourceSpec> sources;  ///< weights do not matter
  Encoder encoder;
};

/// A file as it was when it was read.
struct InputFile {
  std::string path;
  std::uint64_t bytes = 0;
  std::int64_t modified_ns = 0;
  std::string sha256;  ///< of an object, its ETag
};

struct BuiltSource {
  std::string name, kind, field;
  std::int64_t documents = 0, tokens = 0, grains = 0;  ///< tokens without padding
  std::string sha256;                                  ///< Grains::sha256()
  std::vector<InputFile> files;
  std::vector<std::string> shards;  ///< names in the folder
};

/// The folder's data.json.
struct BuiltIndex {
  std::int64_t grain_tokens = 0;
  std::string tokenizer, chat_template;  ///< SHA-256; the template's is empty where no source needs it
  std::vector<BuiltSource> sources;

  /// Throws Error where there is none of this name.
  [[nodiscard]] const BuiltSource& source(const std::string& name) const;
};

inline constexpr const char* kIndexFile = "data.json";
inline constexpr std::uint64_t kShardBytes = std::uint64_t{256} << 20;

/// SHA-256 of what the tokenizer does: its file and its end of text.
std::string tokenizer_sha256(const text::Tokenizer& tokenizer);

/// Reads a folder's index, as what a stranger may have written. Throws Error naming it and what is wrong.
BuiltIndex read_index(const std::string& folder);

/// Why the folder is not what the plan says ("books.txt has changed"); empty where it is. A file whose size and time of
/// change are as they were is taken to be the same; where they differ, its contents decide.
std::string why_stale(const BuiltIndex& index, const BuildPlan& plan);

/// Builds the folder anew; what was there is exchanged in one step at the end. Throws Error where there is something
/// else than built data, and for what is wrong with the sources. A shard ends after about `shard_bytes`.
BuiltIndex build(const std::string& folder, const BuildPlan& plan, std::uint64_t shard_bytes = kShardBytes);

/// Opens one source's grains.
std::shared_ptr<const Grains> open_built(const std::string& folder, const BuiltIndex& index, const std::string& name);

}  // namespace isotone::data
