// Tokenizers against ids of the Python library (tests/goldens/make_text_goldens.py), and against hostile input.
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "base/error.h"
#include "text/goldens_for_test.h"
#include "text/utf8.h"

namespace isotone::text {
namespace {

using Ids = std::vector<std::int32_t>;

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(Tokenizer, IdsEqualThePythonLibrary) {
  const SmallVocab vocab;
  const Json g = golden("encode");
  const auto texts = g["texts"].get<std::vector<std::string>>();
  ASSERT_GE(texts.size(), 200U);
  for (const auto& [name, want] : g["pre"].items()) {
    const Tokenizer direct = Tokenizer::from_gguf(vocab.view(name));
    const Tokenizer again = Tokenizer::from_json(direct.to_json());
    for (const Tokenizer& t : {direct, again}) {
      for (std::size_t i = 0; i < texts.size(); ++i) {
        EXPECT_EQ(t.encode(texts[i]), want["plain"][i].get<Ids>()) << name << ": " << texts[i];
        EXPECT_EQ(t.encode(texts[i], false, true), want["parsed"][i].get<Ids>()) << name << ": " << texts[i];
        if (name != "qwen2") {  // its normaliser composes characters
          EXPECT_EQ(t.decode(t.encode(texts[i])), texts[i]) << name;
        }
      }
    }
  }
}

TEST(Tokenizer, DecodesAnyIdsAsThePythonLibrary) {
  const SmallVocab vocab;
  const Tokenizer t = Tokenizer::from_gguf(vocab.view());
  const Json g = golden("encode");
  for (const Json& c : g["decode"]) {
    const Ids ids = c["ids"].get<Ids>();
    for (const bool skip : {false, true}) {
      const auto want = c[skip ? "skipped" : "text"].get<std::string>();
      EXPECT_EQ(t.decode(ids, skip), want);
      StreamDecoder stream(t, skip);
      std::string text;
      for (const std::int32_t id : ids) {
        const std::string piece = stream.push(id);
        EXPECT_EQ(repair_utf8(piece), piece) << "a piece must be whole UTF-8";
        text += piece;
      }
      EXPECT_EQ(text + stream.finish(), want);
    }
  }
}

TEST(Tokenizer, StreamsEqualTheWholeAtEverySplit) {
  const SmallVocab vocab;
  const Tokenizer t = Tokenizer::from_gguf(vocab.view());
  for (const std::string& text : golden("encode")["texts"].get<std::vector<std::string>>()) {
    const Ids ids = t.encode(text);
    StreamDecoder stream(t);
    std::string sum;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      sum += stream.push(ids[i]);
      ASSERT_EQ(text.compare(0, sum.size(), sum), 0) << text;
      ASSERT_LE(text.substr(0, sum.size()).size(), text.size());
      if (ids.size() < 40) {
        // Flushing at any point gives what decoding so far gives; the rest is decoded by itself.
        StreamDecoder other(t);
        std::string front;
        for (std::size_t k = 0; k <= i; ++k) {
          front += other.push(ids[k]);
        }
        const auto cut = ids.begin() + static_cast<std::ptrdiff_t>(i) + 1;
        EXPECT_EQ(front + other.finish(), t.decode(Ids(ids.begin(), cut)));
        std::string back;
        for (auto k = cut; k != ids.end(); ++k) {
          back += other.push(*k);
        }
        EXPECT_EQ(back + other.finish(), t.decode(Ids(cut, ids.end())));
      }
    }
    EXPECT_EQ(sum + stream.finish(), text);
  }
}

TEST(Tokenizer, StreamsThroughOtherDecoders) {
  // A word vocabulary whose decoder looks at neighbours.
  const Tokenizer t =
      Tokenizer::from_json(R"({"version":"1.0","added_tokens":[{"id":4,"content":"[SEP]","single_word":false,
    "lstrip":false,"rstrip":false,"normalized":false,"special":true}],"normalizer":null,"pre_tokenizer":{"type":"BertPreTokenizer"},
    "post_processor":null,"decoder":{"type":"WordPiece","prefix":"##","cleanup":true},"truncation":null,"padding":null,
    "model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##","max_input_chars_per_word":100,
    "vocab":{"[UNK]":0,"un":1,"##do":2,"it":3,"[SEP]":4,".":5}}})");
  const Ids ids = {1, 2, 3, 4, 5, 3, 3, 2};
  for (const bool skip : {false, true}) {
    StreamDecoder stream(t, skip);
    std::string text;
    for (const std::int32_t id : ids) {
      text += stream.push(id);
    }
    EXPECT_EQ(text + stream.finish(), t.decode(ids, skip));
  }
  EXPECT_EQ(t.token_bytes(2), "do");
  EXPECT_EQ(t.encode("undo [SEP] it.", false, true), (Ids{1, 2, 4, 3, 5}));
  const Ids plain = t.encode("undo [SEP] it.");
  EXPECT_EQ(std::count(plain.begin(), plain.end(), 4), 0);
}

TEST(Tokenizer, SpecialTokensOfUserTextStayText) {
  const SmallVocab vocab;
  for (const char* pre : {"smollm", "gpt-2", "llama-bpe", "qwen2", "default"}) {
    const Tokenizer t = Tokenizer::from_gguf(vocab.view(pre));
    ASSERT_EQ(t.special_ids().size(), 17U);
    for (const std::int32_t id : t.special_ids()) {
      const std::string word = t.token_bytes(id);
      for (const std::string& text : {word, "a" + word + "b", " " + word + "\n", word + word}) {
        const Ids ids = t.encode(text);
        for (const std::int32_t other : ids) {
          EXPECT_FALSE(t.is_special(other)) << pre << " " << text;
        }
        EXPECT_EQ(t.decode(ids), text);
      }
      EXPECT_EQ(t.encode(word, false, true), Ids{id});
      EXPECT_EQ(t.token_id(word), id);
    }
  }
  // A model that takes whole words from its vocabulary would make a special token of a plain word.
  SmallVocab odd;
  odd.tokens[5] = "hidden";
  const Tokenizer t = Tokenizer::from_gguf(odd.view("llama-bpe"));
  const Ids ids = t.encode("hidden");
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 5), 0);
  EXPECT_EQ(t.decode(ids), "hidden");
  EXPECT_EQ(t.encode("hidden", false, true), Ids{5});
}

TEST(Tokenizer, NamesAndBos) {
  const SmallVocab vocab;
  GgufVocab view = vocab.view();
  const Tokenizer plain = Tokenizer::from_gguf(view);
  EXPECT_EQ(plain.vocab_size(), static_cast<std::int32_t>(vocab.tokens.size()));
  EXPECT_EQ(plain.bos_id(), 1);
  EXPECT_EQ(plain.eos_token(), "<|im_end|>");
  EXPECT_EQ(plain.pad_id(), std::nullopt);
  EXPECT_EQ(plain.token_id("no such token"), std::nullopt);
  EXPECT_EQ(plain.encode("a", true), plain.encode("a"));
  view.add_bos = true;
  view.add_eos = true;
  const Tokenizer around = Tokenizer::from_gguf(view);
  Ids want = {1};
  for (const std::int32_t id : around.encode("a b")) {
    want.push_back(id);
  }
  want.push_back(2);
  EXPECT_EQ(around.encode("a b", true), want);
  const Tokenizer again =
      Tokenizer::from_json(around.to_json(), R"({"bos_token":"<|im_start|>","eos_token":{"content":"<|im_end|>"}})");
  EXPECT_EQ(again.encode("a b", true), want);
  EXPECT_EQ(again.bos_id(), 1);
  EXPECT_EQ(again.eos_id(), 2);
  EXPECT_EQ(again.vocab_size(), around.vocab_size());
}

TEST(Tokenizer, RefusesWhatIsBroken) {
  const SmallVocab vocab;
  const Tokenizer t = Tokenizer::from_gguf(vocab.view());
  EXPECT_NE(message_of([&] { (void)Tokenizer::from_gguf(vocab.view("gpt-9")); }).find("known are smollm, gpt-2"),
            std::string::npos);
  GgufVocab bad = vocab.view();
  bad.model = "llama";
  EXPECT_NE(message_of([&] { (void)Tokenizer::from_gguf(bad); }).find("'llama'"), std::string::npos);
  SmallVocab wrong = vocab;
  wrong.merges[3] = "nospace";
  EXPECT_NE(message_of([&] { (void)Tokenizer::from_gguf(wrong.view()); }).find("merge 3"), std::string::npos);
  wrong = vocab;
  wrong.merges[3] = "zzzzq qqqqz";
  EXPECT_NE(message_of([&] { (void)Tokenizer::from_gguf(wrong.view()); }).find("merges do not fit"), std::string::npos);
  wrong = vocab;
  wrong.tokens[40] = wrong.tokens[41];
  EXPECT_NE(message_of([&] { (void)Tokenizer::from_gguf(wrong.view()); }).find("tokens 40 and 41"), std::string::npos);
  wrong = vocab;
  wrong.tokens[40] = "\xff";
  EXPECT_NE(message_of([&] { (void)Tokenizer::from_gguf(wrong.view()); }).find("UTF-8"), std::string::npos);
  wrong = vocab;
  wrong.types.pop_back();
  EXPECT_NE(message_of([&] { (void)Tokenizer::from_gguf(wrong.view()); }).find("token types"), std::string::npos);
  bad = vocab.view();
  bad.eos_id = 1 << 20;
  EXPECT_NE(message_of([&] { (void)Tokenizer::from_gguf(bad); }).find("1048576"), std::string::npos);
  for (const char* json :
       {"", "{", "[]", "{\"model\":{}}", "\xff", "nul", "{\"version\":\"1.0\",\"model\":{\"type\":\"BPE\"}}"}) {
    EXPECT_NE(message_of([&] { (void)Tokenizer::from_json(json); }), "no error") << json;
  }
  EXPECT_NE(message_of([&] { (void)t.encode("ab\xffz"); }).find("offset 2"), std::string::npos);
  EXPECT_NE(message_of([&] { (void)t.decode(Ids{-1}); }).find("-1"), std::string::npos);
  EXPECT_NE(message_of([] { (void)Tokenizer().encode("a"); }).find("empty"), std::string::npos);
  EXPECT_EQ(t.decode(Ids{1 << 30}), "");
  EXPECT_EQ(t.token_bytes(1 << 30), "");
  EXPECT_NE(message_of([&] { (void)t.encode(std::string(Tokenizer::kMaxTextBytes + 1, 'a')); }).find("bytes"),
            std::string::npos);
}

TEST(Tokenizer, TakesLongRuns) {
  const SmallVocab vocab;
  for (const char* pre : {"smollm", "llama-bpe", "default"}) {
    const Tokenizer t = Tokenizer::from_gguf(vocab.view(pre));
    for (const char* unit : {"a", " ", "\n", "1", "é", "<", "ab1 "}) {
      std::string text;
      while (text.size() < 200000) {
        text += unit;
      }
      EXPECT_EQ(t.decode(t.encode(text)), text) << pre << " " << unit;
    }
  }
}

TEST(Tokenizer, IsSharedBetweenThreads) {
  const SmallVocab vocab;
  const Tokenizer t = Tokenizer::from_gguf(vocab.view());
  const auto texts = golden("encode")["texts"].get<std::vector<std::string>>();
  const Json want = golden("encode")["pre"]["smollm"]["plain"];
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (int n = 0; n < 4; ++n) {
    threads.emplace_back([&, n] {
      for (std::size_t i = 0; i < texts.size(); ++i) {
        wrong[static_cast<std::size_t>(n)] += t.encode(texts[i]) != want[i].get<Ids>() ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

TEST(Utf8, TailsAndRepair) {
  EXPECT_EQ(incomplete_tail("abc"), 0U);
  EXPECT_EQ(incomplete_tail("\xE2\x82"), 2U);
  EXPECT_EQ(incomplete_tail("\xF0\x9F\x98"), 3U);
  EXPECT_EQ(incomplete_tail("\xF0\x9F\x98\x80"), 0U);
  EXPECT_EQ(incomplete_tail("\xE0\x80"), 0U);  // overlong: broken already
  EXPECT_EQ(incomplete_tail("\xC3"), 1U);
  EXPECT_EQ(incomplete_tail("\xFF"), 0U);
  EXPECT_EQ(repair_utf8("a\xE2\x82z\xFF"), "a\xEF\xBF\xBDz\xEF\xBF\xBD");
  EXPECT_EQ(repair_utf8("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
}

}  // namespace
}  // namespace isotone::text
