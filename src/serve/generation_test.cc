// The token loop on a fake model: limits, stop strings and ids, cancellation, cache reuse, seeds, log-probabilities.
#include "serve/generation.h"

#include <gtest/gtest.h>

#include "serve/fake_model.h"

namespace isotone::serve {
namespace {

struct Fixture {
  explicit Fixture(std::string_view script, std::int64_t context = 4096) : Fixture(byte_tokens(script), context) {}
  explicit Fixture(std::vector<std::int32_t> script, std::int64_t context = 4096)
      : model(std::move(script), context), tokenizer(fake_tokenizer()), conversation(model) {
    request.prompt = byte_tokens("ab");  // the answer starts at script[2]
    request.sampling.temperature = 0.0F;
    request.max_tokens = 8;
    request.stop_ids = {FakeModel::kEnd};
  }
  Generation run(const OnPiece& on_piece = {}, const std::stop_token& stop = {}) {
    return generate(conversation, tokenizer, request, on_piece, stop);
  }
  FakeModel model;
  text::Tokenizer tokenizer;
  Conversation conversation;
  GenerationRequest request;
};

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(Generation, StopsAtMaxTokens) {
  Fixture f("0123456789");
  std::string streamed;
  std::int64_t calls = 0;
  const Generation g = f.run([&](std::string_view text, std::span<const nn::Sample> tokens) {
    streamed += text;
    calls += static_cast<std::int64_t>(tokens.size());
  });
  EXPECT_EQ(g.text, "23456789");
  EXPECT_EQ(streamed, g.text);
  EXPECT_EQ(calls, 8);
  EXPECT_EQ(g.tokens.size(), 8U);
  EXPECT_EQ(g.reason, FinishReason::length);
  EXPECT_EQ(g.prompt_tokens, 2);
  EXPECT_EQ(g.timings.decode_tokens, 7);
  EXPECT_EQ(f.model.tokens_read, 2 + 7);  // the last token is not read
}

TEST(Generation, StopsWhereTheContextIsFull) {
  Fixture f("0123456789", 6);
  f.request.max_tokens = -1;
  const Generation g = f.run();
  EXPECT_EQ(g.text, "2345");
  EXPECT_EQ(g.reason, FinishReason::length);
}

TEST(Generation, EndTokenIsCountedNotShown) {
  std::vector<std::int32_t> script = byte_tokens("..hey");
  script.push_back(FakeModel::kEnd);
  Fixture f(script);
  const Generation g = f.run();
  EXPECT_EQ(g.text, "hey");
  EXPECT_EQ(g.tokens.size(), 4U);
  EXPECT_EQ(g.reason, FinishReason::stop);
}

TEST(Generation, StopStringAcrossTokensIsNeverShown) {
  Fixture f("..hello<end>more");
  f.request.max_tokens = 14;
  f.request.stop = {"<end>"};
  std::string streamed;
  const Generation g = f.run([&](std::string_view text, std::span<const nn::Sample>) {
    streamed += text;
    EXPECT_EQ(streamed.find('<'), std::string::npos);
  });
  EXPECT_EQ(g.text, "hello");
  EXPECT_EQ(streamed, "hello");
  EXPECT_EQ(g.reason, FinishReason::stop);
}

TEST(Generation, HeldBackTextIsShownWhenNothingFollows) {
  Fixture f("..hello<e");
  f.request.max_tokens = 7;
  f.request.stop = {"<end>"};
  EXPECT_EQ(f.run().text, "hello<e");
}

TEST(Generation, CharactersOfSeveralTokensComeWhole) {
  Fixture f("..\xE2\x82\xAC!");  // the euro sign
  f.request.max_tokens = 4;
  std::vector<std::string> pieces;
  f.run([&](std::string_view text, std::span<const nn::Sample>) {
    if (!text.empty()) {
      pieces.emplace_back(text);
    }
  });
  EXPECT_EQ(pieces, (std::vector<std::string>{"\xE2\x82\xAC", "!"}));
}

TEST(Generation, CancelDuringDecodeKeepsWhatThereIs) {
  Fixture f("0123456789");
  std::stop_source stop;
  const Generation g = f.run(
      [&](std::string_view text, std::span<const nn::Sample>) {
        if (text == "4") {
          stop.request_stop();
        }
      },
      stop.get_token());
  EXPECT_EQ(g.text, "234");
  EXPECT_EQ(g.reason, FinishReason::cancelled);
}

TEST(Generation, CancelDuringALongPromptStopsReading) {
  Fixture f("0123456789");
  f.request.prompt.assign(3000, 'x');
  std::stop_source stop;
  f.model.before_token = [&](std::int64_t length) {
    if (length == 600) {
      stop.request_stop();
    }
  };
  const Generation g = f.run({}, stop.get_token());
  EXPECT_EQ(g.reason, FinishReason::cancelled);
  EXPECT_TRUE(g.tokens.empty());
  EXPECT_LT(f.model.tokens_read, 2000);
  // The conversation is still good.
  f.model.before_token = {};
  f.request.prompt = byte_tokens("ab");
  EXPECT_EQ(f.run().text, "23456789");
}

TEST(Generation, ReusesTheCacheWithoutChangingAnything) {
  Fixture f("0123456789");
  f.request.sampling.temperature = 1.0F;
  f.model.margin = 0.0F;  // pure noise: any mistake changes the answer
  f.request.sampling.logprobs = true;
  const Generation first = f.run();
  std::vector<std::int32_t> longer = f.request.prompt;
  for (const nn::Sample& s : first.tokens) {
    longer.push_back(s.token);
  }
  f.request.prompt = longer;
  f.request.prompt.push_back('z');
  const std::int64_t before = f.model.tokens_read;
  const Generation again = f.run();
  EXPECT_EQ(again.reused_tokens, 9);  // 2 of the prompt and 7 of the answer
  EXPECT_EQ(f.model.tokens_read - before, 2 + 7);
  Fixture fresh("0123456789");
  fresh.model.margin = 0.0F;
  fresh.request = f.request;
  const Generation cold = fresh.run();
  EXPECT_EQ(cold.reused_tokens, 0);
  ASSERT_EQ(cold.tokens.size(), again.tokens.size());
  for (std::size_t i = 0; i < cold.tokens.size(); ++i) {
    EXPECT_EQ(cold.tokens[i].token, again.tokens[i].token);
    EXPECT_EQ(cold.tokens[i].logprob, again.tokens[i].logprob);
  }
  // A different beginning is cut off; an equal prompt still reads its last token.
  EXPECT_EQ(f.run().reused_tokens, static_cast<std::int64_t>(f.request.prompt.size()) - 1);
  f.request.prompt = byte_tokens("b");
  EXPECT_EQ(f.run().reused_tokens, 0);
}

TEST(Generation, SeedChoosesTheAnswer) {
  Fixture f("0123456789");
  f.model.margin = 0.0F;
  f.request.sampling.temperature = 1.0F;
  f.request.sampling.seed = 1;
  const std::string one = f.run().text;
  EXPECT_EQ(f.run().text, one);
  f.request.sampling.seed = 2;
  EXPECT_NE(f.run().text, one);
}

TEST(Generation, ErrorsSayWhatFits) {
  Fixture f("0123456789", 10);
  const auto error = [&] { return error_of([&] { f.run(); }); };
  f.request.prompt.clear();
  EXPECT_EQ(error(), "the prompt has no tokens; give at least one");
  f.request.prompt.assign(10, 'x');
  EXPECT_NE(error().find("the prompt has 10 tokens and the model's context holds 10"), std::string::npos);
  f.request.prompt = byte_tokens("abc");
  EXPECT_NE(error().find("at most 7 fit"), std::string::npos);
  f.request.max_tokens = 2;
  f.request.prompt = {5, 257};
  EXPECT_NE(error().find("token 1 of the prompt is 257; the model has tokens 0 to 256"), std::string::npos);
  f.request.prompt = {5, -1};
  EXPECT_NE(error().find("is -1"), std::string::npos);
  f.request.prompt = {5};
  f.request.sampling.top_p = 2.0F;
  EXPECT_NE(error().find("top_p is 2"), std::string::npos);
  f.request.sampling.top_p = 1.0F;
  f.request.stop = {""};
  EXPECT_NE(error().find("stop string is empty"), std::string::npos);
}

}  // namespace
}  // namespace isotone::serve
