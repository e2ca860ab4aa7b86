// A source of documents as a recipe names it: files and folders of one format.
#pragma once

#include "data/document.h"

namespace isotone::data {

struct SourceSpec {
  std::string name;                ///< letters, digits, "-" and "_"; empty: the only one, of a recipe that names none
  std::string kind = "text";       ///< one of source_kinds()
  std::string field = "text";      ///< jsonl, parquet: the key or column that holds the text
  std::vector<std::string> files;  ///< files, and folders whose files are taken in order of their names
  std::int64_t weight = 1;         ///< grains of it among those of all sources
  friend bool operator==(const SourceSpec&, const SourceSpec&) = default;
};

/// What tokenizing depends on beside the files.
struct Encoder {
  text::Tokenizer tokenizer;
  text::ChatTemplate chat;
};

std::vector<std::string> source_kinds();
/// Whether sources of this kind have a field.
bool has_field(const std::string& kind);
/// The files of a source, folders (with those below them) resolved: names that begin with a dot are left out, and of
/// jsonl and chat all that do not end in .jsonl, of parquet all that do not end in .parquet. Throws Error naming what
/// is not there or an empty folder.
std::vector<std::string> files_of(const SourceSpec& spec);
/// All documents of one of its files.
void read_file(const SourceSpec& spec, const std::string& file, const Encoder& encoder, const DocumentSink& sink);

}  // namespace isotone::data
