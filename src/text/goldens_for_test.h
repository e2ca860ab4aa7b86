// Golden files and the small vocabulary in them, for the tests of this folder.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file.h"
#include "text/tokenizer.h"

namespace isotone::text {

using Json = nlohmann::ordered_json;

inline Json golden(const std::string& name) {
  return Json::parse(read_text_file(std::string(ISOTONE_SOURCE_DIR) + "/tests/text/goldens/" + name + ".json"));
}

/// The small vocabulary of encode.json, as a GGUF file would hold it.
struct SmallVocab {
  SmallVocab() {
    const Json v = golden("encode")["vocab"];
    tokens = v["tokens"].get<std::vector<std::string>>();
    merges = v["merges"].get<std::vector<std::string>>();
    types = v["token_type"].get<std::vector<std::int32_t>>();
  }
  [[nodiscard]] GgufVocab view(std::string_view pre = "smollm") const {
    GgufVocab g;
    g.pre = pre;
    g.tokens = tokens;
    g.merges = merges;
    g.types = types;
    g.bos_id = 1;
    g.eos_id = 2;
    g.unk_id = 0;
    return g;
  }
  std::vector<std::string> tokens, merges;
  std::vector<std::int32_t> types;
};

}  // namespace isotone::text
