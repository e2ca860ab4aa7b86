// Documents as token ids with a flag for what is learned, and where they come from: text files and conversations.
#pragma once

#include <cstdint>
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

/// Documents of a UTF-8 text file, separated by lines that hold one form feed (U+000C); each ends with the tokenizer's
/// end of text where it has one. Throws Error naming the file for what is unreadable, empty or no UTF-8.
std::vector<Document> read_text(const std::string& path, const text::Tokenizer& tokenizer);

/// One document for each line {"messages": [{"role", "content"}, ...]} of a JSONL file, rendered by the chat template;
/// only the assistant's answers are learned, their end of turn included. Throws Error naming the file and the line.
std::vector<Document> read_chats(const std::string& path, const text::Tokenizer& tokenizer,
                                 const text::ChatTemplate& chat);

}  // namespace isotone::data
