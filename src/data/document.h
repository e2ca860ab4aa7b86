// Documents as token ids with a flag for what is learned, and where they come from: texts, lines of JSON,
// conversations.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace isotone::data {

/// `learn[i]`: token i is a target (an answer, or all of a text). Both of one length.
struct Document {
  std::vector<std::int32_t> ids;
  std::vector<bool> learn;
};

/// Takes documents in the order of their file.
using DocumentSink = std::function<void(const Document&)>;

// Each reads one file as it goes, tokenizes on all threads, and hands over one document after another; memory does
// not grow with the file. Throws Error naming the file, and the line where there are lines.

/// Documents of a UTF-8 text, separated by form feeds (U+000C); line ends around one are dropped, and each document
/// ends with the tokenizer's end of text where it has one.
void read_text(const std::string& path, const text::Tokenizer& tokenizer, const DocumentSink& sink);

/// One document for each line, a JSON object whose `field` is a text. Empty lines and empty texts are skipped.
void read_jsonl(const std::string& path, const std::string& field, const text::Tokenizer& tokenizer,
                const DocumentSink& sink);

/// One document for each row of a Parquet file's column of texts. Nulls and empty texts are skipped.
void read_parquet(const std::string& path, const std::string& field, const text::Tokenizer& tokenizer,
                  const DocumentSink& sink);

/// One document for each line {"messages": [{"role", "content"}, ...]}, rendered by the chat template; only the
/// assistant's answers are learned, their end of turn included.
void read_chats(const std::string& path, const text::Tokenizer& tokenizer, const text::ChatTemplate& chat,
                const DocumentSink& sink);

}  // namespace isotone::data
