// The tokenizer that belongs to a model's files.
#pragma once

#include "formats/model_files.h"
#include "text/tokenizer.h"

namespace isotone::models {

/// From tokenizer.json, or built from a GGUF's tokens, merges and pre-tokenizer name. Throws Error where there is
/// neither.
text::Tokenizer load_tokenizer(const ModelFiles& files);
text::Tokenizer load_tokenizer(const GgufTokenizer& tokenizer);

}  // namespace isotone::models
