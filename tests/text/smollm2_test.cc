// The real model's vocabulary and chat template, from its GGUF, against ids of the Python libraries.
// Skipped where the model is not there (`make setup` fetches it).
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "formats/gguf.h"
#include "formats/model_files.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace isotone {
namespace {

using Ids = std::vector<std::int32_t>;

class SmolLm2 : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string path = std::string(ISOTONE_SOURCE_DIR) + "/.cache/models/smollm2-135m-instruct.gguf";
    if (!std::filesystem::exists(path)) {
      GTEST_SKIP() << path << " is not there; make setup fetches it";
    }
    vocab = *open_model(path)->gguf_tokenizer();
    text::GgufVocab view;
    view.model = vocab.model;
    view.pre = vocab.pre;
    view.tokens = vocab.tokens;
    view.types = vocab.types;
    view.merges = vocab.merges;
    view.bos_id = vocab.bos_id;
    view.eos_id = vocab.eos_id;
    view.unk_id = vocab.unk_id;
    view.pad_id = vocab.pad_id;
    view.add_bos = vocab.add_bos.value_or(false);
    tokenizer = text::Tokenizer::from_gguf(view);
    golden =
        nlohmann::json::parse(read_text_file(std::string(ISOTONE_SOURCE_DIR) + "/tests/text/goldens/smollm2.json"));
  }
  GgufTokenizer vocab;
  text::Tokenizer tokenizer;
  nlohmann::json golden;
};

TEST_F(SmolLm2, IdsEqualThePythonLibrary) {
  const text::Tokenizer again = text::Tokenizer::from_json(tokenizer.to_json());
  const auto texts = golden["texts"].get<std::vector<std::string>>();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    for (const text::Tokenizer& t : {tokenizer, again}) {
      EXPECT_EQ(t.encode(texts[i]), golden["plain"][i].get<Ids>()) << texts[i];
      EXPECT_EQ(t.encode(texts[i], false, true), golden["parsed"][i].get<Ids>()) << texts[i];
    }
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(texts[i])), texts[i]);
  }
}

TEST_F(SmolLm2, ChatsEqualTransformers) {
  const text::ChatTemplate chat(vocab.chat_template);
  for (const auto& c : golden["chats"]) {
    text::RenderOptions options;
    options.add_generation_prompt = c["generate"].get<bool>();
    const std::string messages = c["messages"].dump();
    EXPECT_EQ(chat.render(messages, options), c["text"].get<std::string>());
    EXPECT_EQ(encode_chat(tokenizer, chat, messages, options), c["ids"].get<Ids>());
  }
}

}  // namespace
}  // namespace isotone
