#include "models/tokenizer.h"

#include "base/error.h"

namespace isotone::models {

text::Tokenizer load_tokenizer(const GgufTokenizer& g) {
  text::GgufVocab vocab;
  vocab.model = g.model;
  vocab.pre = g.pre;
  vocab.tokens = g.tokens;
  vocab.types = g.types;
  vocab.merges = g.merges;
  vocab.bos_id = g.bos_id;
  vocab.eos_id = g.eos_id;
  vocab.unk_id = g.unk_id;
  vocab.pad_id = g.pad_id;
  vocab.add_bos = g.add_bos.value_or(false);
  vocab.add_eos = g.add_eos.value_or(false);
  return text::Tokenizer::from_gguf(vocab);
}

text::Tokenizer load_tokenizer(const ModelFiles& files) {
  if (const auto& g = files.gguf_tokenizer()) {
    return load_tokenizer(*g);
  }
  require(!files.tokenizer_json().empty(),
          "{}: there is no tokenizer.json; put the tokenizer's file beside the weights", files.path());
  return text::Tokenizer::from_json(files.tokenizer_json(), files.tokenizer_config_json());
}

}  // namespace isotone::models
