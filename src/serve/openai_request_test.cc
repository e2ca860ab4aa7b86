// Every parameter of the API: taken with its type and range, ignored, or refused by name; JSON of every kind of bad.
#include "serve/openai_request.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "serve/openai_response.h"

namespace isotone::serve {
namespace {

using Json = nlohmann::json;

ApiError error_of(const std::string& body, bool chat) {
  try {
    parse_request(body, chat);
  } catch (const ApiError& e) {
    return e;
  }
  ADD_FAILURE() << "no error for " << body.substr(0, 200);
  return {0, "no error", "", "", ""};
}

std::string chat_with(const std::string& more) {
  return R"({"model":"m","messages":[{"role":"user","content":"hi"}])" + (more.empty() ? "" : "," + more) + "}";
}
std::string completion_with(const std::string& more) {
  return R"({"prompt":"hi")" + (more.empty() ? "" : "," + more) + "}";
}

TEST(OpenAiRequest, TakesEveryParameter) {
  const ApiRequest r = parse_request(
      chat_with(R"("stream":true,"stream_options":{"include_usage":true},"max_completion_tokens":7,"temperature":0.5,
        "top_p":0.25,"min_p":0.125,"top_k":9,"repetition_penalty":1.5,"frequency_penalty":-1,"presence_penalty":1,
        "seed":18446744073709551615,"stop":["a","b"],"logprobs":true,"top_logprobs":3,"logit_bias":{"5":-100,"7":2.5},
        "n":1,"user":"u","metadata":{},"store":false,"response_format":{"type":"text"},"tools":null,"tool_choice":"none")"),
      true);
  EXPECT_TRUE(r.chat && r.stream && r.include_usage);
  EXPECT_EQ(r.model, "m");
  ASSERT_EQ(r.messages.size(), 1U);
  EXPECT_EQ(r.messages[0].role, "user");
  EXPECT_EQ(r.messages[0].content, "hi");
  const nn::SamplingParams& s = r.generation.sampling;
  EXPECT_EQ(r.generation.max_tokens, 7);
  EXPECT_EQ(s.temperature, 0.5F);
  EXPECT_EQ(s.top_p, 0.25F);
  EXPECT_EQ(s.min_p, 0.125F);
  EXPECT_EQ(s.top_k, 9);
  EXPECT_EQ(s.repetition_penalty, 1.5F);
  EXPECT_EQ(s.frequency_penalty, -1.0F);
  EXPECT_EQ(s.presence_penalty, 1.0F);
  EXPECT_EQ(s.seed, ~std::uint64_t{0});
  EXPECT_TRUE(s.logprobs);
  EXPECT_EQ(s.top_logprobs, 3);
  EXPECT_EQ(r.generation.stop, (std::vector<std::string>{"a", "b"}));
  ASSERT_EQ(s.logit_bias.size(), 2U);
  EXPECT_EQ(s.logit_bias[1], (std::pair<std::int32_t, float>(7, 2.5F)));
}

TEST(OpenAiRequest, DefaultsAndNulls) {
  const ApiRequest r = parse_request(completion_with(R"("temperature":null,"stop":null,"max_tokens":null,"seed":null,
      "logprobs":null,"n":null,"logit_bias":null,"stream":null,"echo":false,"best_of":1,"suffix":null)"),
                                     false);
  EXPECT_FALSE(r.stream);
  EXPECT_EQ(*r.prompt, "hi");
  EXPECT_EQ(r.generation.max_tokens, -1);
  EXPECT_EQ(r.generation.sampling.temperature, 1.0F);
  EXPECT_FALSE(r.generation.sampling.logprobs);
  // Without a seed each request draws its own.
  EXPECT_NE(r.generation.sampling.seed, parse_request(completion_with(""), false).generation.sampling.seed);
}

TEST(OpenAiRequest, FormsOfAPrompt) {
  EXPECT_EQ(*parse_request(R"({"prompt":["hi"]})", false).prompt, "hi");
  EXPECT_EQ(*parse_request(R"({"prompt":[1,2]})", false).prompt_ids, (std::vector<std::int32_t>{1, 2}));
  EXPECT_EQ(*parse_request(R"({"prompt":[[3]]})", false).prompt_ids, (std::vector<std::int32_t>{3}));
  for (const char* bad : {R"({})", R"({"prompt":null})", R"({"prompt":[]})", R"({"prompt":["a","b"]})",
                          R"({"prompt":[1,"a"]})", R"({"prompt":[1.5]})", R"({"prompt":[-1]})", R"({"prompt":{}})",
                          R"({"prompt":[99999999999]})", R"({"prompt":[[1],[2]]})", R"({"prompt":7})"}) {
    const ApiError e = error_of(bad, false);
    EXPECT_EQ(e.param, "prompt") << bad;
    EXPECT_EQ(e.status, 400);
  }
}

TEST(OpenAiRequest, FormsOfMessages) {
  const ApiRequest r = parse_request(
      R"({"messages":[{"role":"developer","content":"d"},{"role":"user","content":[{"type":"text","text":"a"},
          {"type":"text","text":"b"}],"name":"x"},{"role":"assistant","content":"c","tool_calls":null}]})",
      true);
  ASSERT_EQ(r.messages.size(), 3U);
  EXPECT_EQ(r.messages[0].role, "system");
  EXPECT_EQ(r.messages[1].content, "ab");
  const std::pair<const char*, const char*> bad[] = {
      {R"({})", "messages"},
      {R"({"messages":[]})", "messages"},
      {R"({"messages":"hi"})", "messages"},
      {R"({"messages":["hi"]})", "messages[0]"},
      {R"({"messages":[{"content":"x"}]})", "messages[0]"},
      {R"({"messages":[{"role":"tool","content":"x"}]})", "messages[0].role"},
      {R"({"messages":[{"role":"user"}]})", "messages[0].content"},
      {R"({"messages":[{"role":"user","content":null}]})", "messages[0].content"},
      {R"({"messages":[{"role":"user","content":5}]})", "messages[0].content"},
      {R"({"messages":[{"role":"user","content":["x"]}]})", "messages[0].content"},
      {R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})", "messages[0].content"},
      {R"({"messages":[{"role":"user","content":[{"type":"text"}]}]})", "messages[0].content"},
      {R"({"messages":[{"role":"assistant","content":"x","tool_calls":[{}]}]})", "messages[0].tool_calls"},
  };
  for (const auto& [body, param] : bad) {
    EXPECT_EQ(error_of(body, true).param, param) << body;
  }
}

TEST(OpenAiRequest, RefusesByName) {
  const std::pair<const char*, const char*> bad[] = {
      {R"("n":2)", "n"},
      {R"("n":0)", "n"},
      {R"("tools":[{"type":"function"}])", "tools"},
      {R"("tool_choice":"auto")", "tool_choice"},
      {R"("functions":[{}])", "functions"},
      {R"("audio":{})", "audio"},
      {R"("modalities":["audio"])", "modalities"},
      {R"("reasoning_effort":"low")", "reasoning_effort"},
      {R"("response_format":{"type":"json_object"})", "response_format"},
      {R"("response_format":"text")", "response_format"},
      {R"("temprature":1)", "temprature"},
      {R"("temperature":"hot")", "temperature"},
      {R"("temperature":1e300)", "temperature"},
      {R"("top_k":1.5)", "top_k"},
      {R"("top_k":-2)", "top_k"},
      {R"("max_tokens":0)", "max_tokens"},
      {R"("max_tokens":"5")", "max_tokens"},
      {R"("max_tokens":1e3)", "max_tokens"},
      {R"("max_tokens":18446744073709551615)", "max_tokens"},
      {R"("max_completion_tokens":-1)", "max_completion_tokens"},
      {R"("stream":"yes")", "stream"},
      {R"("stream_options":{"include_usage":true})", "stream_options"},
      {R"("stream":true,"stream_options":[])", "stream_options"},
      {R"("stream":true,"stream_options":{"what":1})", "what"},
      {R"("stop":5)", "stop"},
      {R"("stop":[5])", "stop"},
      {R"("stop":"")", "stop"},
      {R"("stop":["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"])", "stop"},
      {R"("seed":"x")", "seed"},
      {R"("seed":1.5)", "seed"},
      {R"("logprobs":1)", "logprobs"},
      {R"("top_logprobs":2)", "top_logprobs"},
      {R"("logprobs":true,"top_logprobs":21)", "top_logprobs"},
      {R"("logit_bias":[])", "logit_bias"},
      {R"("logit_bias":{"x":1})", "logit_bias"},
      {R"("logit_bias":{"-1":1})", "logit_bias"},
      {R"("logit_bias":{"5":"x"})", "logit_bias"},
      {R"("logit_bias":{"99999999999999":1})", "logit_bias"},
      {R"("model":5)", "model"},
  };
  for (const auto& [more, param] : bad) {
    const ApiError e = error_of(chat_with(more), true);
    EXPECT_EQ(e.param, param) << more << ": " << e.message;
    EXPECT_EQ(e.status, 400);
    EXPECT_NE(e.message.find(std::string(param)), std::string::npos) << e.message;
  }
  EXPECT_EQ(error_of(completion_with(R"("echo":true)"), false).param, "echo");
  EXPECT_EQ(error_of(completion_with(R"("suffix":"x")"), false).param, "suffix");
  EXPECT_EQ(error_of(completion_with(R"("best_of":3)"), false).param, "best_of");
  EXPECT_EQ(error_of(completion_with(R"("logprobs":21)"), false).param, "logprobs");
  EXPECT_EQ(error_of(completion_with(R"("messages":[])"), false).param, "messages");
}

TEST(OpenAiRequest, BadJson) {
  std::string deep;
  for (int i = 0; i < 100000; ++i) {
    deep += "[";
  }
  const std::string bad[] = {"",
                             "{",
                             "nonsense",
                             "[]",
                             "5",
                             "null",
                             "{\"prompt\":\"a\"} x",
                             "{\"prompt\":\"\xff\xfe\"}",
                             "{\"prompt\":\"\\ud800\"}",
                             "{\"prompt\":1e999999}",
                             std::string("{\"prompt\":\"a\0b\"}", 16),
                             "{\"prompt\":" + deep,
                             deep,
                             "{\"prompt\":'a'}"};
  for (const std::string& body : bad) {
    const ApiError e = error_of(body, false);
    EXPECT_EQ(e.status, 400);
    EXPECT_EQ(e.code, "invalid_json") << body.substr(0, 40) << " " << e.message;
    // The answer is JSON whatever was sent.
    EXPECT_EQ(Json::parse(error_body(e))["error"]["type"], "invalid_request_error");
  }
}

}  // namespace
}  // namespace isotone::serve
