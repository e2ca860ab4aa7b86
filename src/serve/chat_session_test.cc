// The chat's commands, its history, and that nothing a user types ends it.
#include "serve/chat_session.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "serve/fake_model.h"

namespace isotone::serve {
namespace {

struct Fixture {
  explicit Fixture(std::int64_t context = 4096) {
    auto owned = std::make_unique<FakeModel>(byte_tokens("0123456789"), context);
    fake = owned.get();
    model = fake_loaded_model(std::move(owned));
    ChatSession::Options options;
    options.sampling.temperature = 0.0F;
    options.max_tokens = 4;
    session.emplace(*model, options, [this](std::string_view text) { out += text; });
  }
  std::string say(const std::string& line, const std::stop_token& stop = {}) {
    out.clear();
    next = session->handle(line, stop);
    return out;
  }
  FakeModel* fake = nullptr;
  std::unique_ptr<LoadedModel> model;
  std::optional<ChatSession> session;
  std::string out;
  ChatSession::Next next = ChatSession::Next::go_on;
};

TEST(ChatSession, KeepsTheHistory) {
  Fixture f;
  const std::string first = f.say("hello\n");
  EXPECT_EQ(first.size(), 5U);  // four bytes and the line's end
  ASSERT_EQ(f.session->history().size(), 2U);
  EXPECT_EQ(f.session->history()[0].content, "hello");
  EXPECT_EQ(f.session->history()[1].role, "assistant");
  EXPECT_EQ(f.session->history()[1].content + "\n", first);
  const std::int64_t before = f.fake->tokens_read;
  f.say("again");
  EXPECT_EQ(f.session->history().size(), 4U);
  EXPECT_LT(f.fake->tokens_read - before, 40);  // the first turn was not read again
  f.say("/reset");
  EXPECT_TRUE(f.session->history().empty());
  EXPECT_EQ(f.say("hello"), first);
}

TEST(ChatSession, Commands) {
  Fixture f;
  for (const char* name : {"/help", "/reset", "/system", "/params", "/save", "/load", "/quit"}) {
    EXPECT_NE(f.say("/help").find(name), std::string::npos) << name;
  }
  EXPECT_NE(f.say("/system").find("no system message"), std::string::npos);
  f.say("/system  be brief ");
  EXPECT_EQ(f.session->history().at(0).content, "be brief");
  EXPECT_EQ(f.say("/system"), "be brief\n");
  EXPECT_NE(f.say("/params temperature 0.25").find("temperature 0.25"), std::string::npos);
  EXPECT_EQ(f.session->options().sampling.temperature, 0.25F);
  for (const char* set : {"top_k 5", "top_p 0.5", "min_p 0.1", "repetition_penalty 1.1", "frequency_penalty 0.5",
                          "presence_penalty 0.5", "seed 42", "max_tokens 17"}) {
    EXPECT_NE(f.say(std::string("/params ") + set).find(set), std::string::npos) << set;
  }
  EXPECT_EQ(f.say("   "), "");
  EXPECT_EQ(f.next, ChatSession::Next::go_on);
  f.say("/quit");
  EXPECT_EQ(f.next, ChatSession::Next::quit);
}

TEST(ChatSession, MistakesAreSaidAndChangeNothing) {
  Fixture f;
  f.say("hello");
  for (const char* line : {"/what", "/params temperature", "/params temperature hot", "/params top_p 2", "/params x 1",
                           "/params max_tokens 0", "/save", "/load", "/load /nowhere/file", "/save /nowhere/file"}) {
    EXPECT_EQ(f.say(line).substr(0, 7), "error: ") << line;
    EXPECT_EQ(f.next, ChatSession::Next::go_on);
    EXPECT_EQ(f.session->history().size(), 2U);
  }
  EXPECT_EQ(f.session->options().sampling.top_p, 1.0F);
}

TEST(ChatSession, ASlashIsSaidWithTwo) {
  Fixture f;
  f.say("//etc is a folder");
  EXPECT_EQ(f.session->history().at(0).content, "/etc is a folder");
}

TEST(ChatSession, SaveAndLoad) {
  const std::string path = ::testing::TempDir() + "isotone_chat_test.json";
  Fixture f;
  f.say("/system s\"\xE2\x82\xAC");
  f.say("hello");
  f.say("/save " + path);
  Fixture g;
  EXPECT_EQ(g.say("/load " + path), "Loaded 3 messages from " + path + ".\n");
  ASSERT_EQ(g.session->history().size(), 3U);
  EXPECT_EQ(g.session->history()[0].content, "s\"\xE2\x82\xAC");
  EXPECT_EQ(g.session->options().system, "s\"\xE2\x82\xAC");
  EXPECT_EQ(g.say("more"), f.say("more"));
  for (const char* bad : {"", "{", "[]", "{\"messages\":[{\"role\":1}]}", "{\"messages\":5}"}) {
    std::ofstream(path) << bad;
    EXPECT_EQ(g.say("/load " + path).substr(0, 7), "error: ") << bad;
  }
  EXPECT_EQ(g.session->history().size(), 5U);
  std::remove(path.c_str());
}

TEST(ChatSession, StopEndsTheAnswerOnly) {
  Fixture f;
  f.say("/params max_tokens -1");
  std::stop_source stop;
  f.fake->before_token = [&](std::int64_t length) {
    if (length == 60) {
      stop.request_stop();
    }
  };
  f.say("hello", stop.get_token());
  f.fake->before_token = {};
  EXPECT_EQ(f.session->history().size(), 2U);
  EXPECT_LT(f.session->history()[1].content.size(), 60U);
  EXPECT_FALSE(f.session->history()[1].content.empty());
  f.say("/params max_tokens 3");
  EXPECT_EQ(f.say("again").size(), 4U);
}

TEST(ChatSession, AFullContextIsExplained) {
  Fixture f(40);
  EXPECT_NE(f.say(std::string(100, 'x')).find("/reset"), std::string::npos);
  EXPECT_TRUE(f.session->history().empty());
  f.say("/params max_tokens 1000");
  EXPECT_NE(f.say("hi").find("the context is full"), std::string::npos);
}

}  // namespace
}  // namespace isotone::serve
