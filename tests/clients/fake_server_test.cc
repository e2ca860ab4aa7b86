// The HTTP server on a fake model, in this process, against clients in Python: raw sockets that behave badly
// (hostile_client.py) and, where the virtual environment is there, OpenAI's own client (openai_client.py). Beyond
// 1000 tokens the fake model takes 2 ms for each, so that a client can leave in the middle.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "serve/fake_model.h"
#include "serve/http_server.h"

namespace isotone::serve {
namespace {

class RunningServer {
 public:
  explicit RunningServer(ServerOptions options) {
    std::vector<std::int32_t> script = byte_tokens("The quick brown fox. ");
    auto model = std::make_unique<FakeModel>(script, 4096);
    fake = model.get();
    fake->before_token = [](std::int64_t length) {
      if (length > 1000) {  // long contexts are slow, so that a client can leave in the middle
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
    };
    loaded = fake_loaded_model(std::move(model));
    options.port = 0;
    server = std::make_unique<HttpServer>(*loaded, options);
    thread = std::thread([this] { server->run(false); });
  }
  ~RunningServer() {
    server->stop();
    thread.join();
  }
  int client(const std::string& python, const std::string& script, const std::string& arguments) const {
    const std::string command = python + " " + ISOTONE_SOURCE_DIR + "/tests/clients/" + script + " " +
                                std::to_string(server->port()) + " " + arguments;
    return std::system(command.c_str());
  }
  FakeModel* fake = nullptr;
  std::unique_ptr<LoadedModel> loaded;
  std::unique_ptr<HttpServer> server;
  std::thread thread;
};

TEST(FakeServer, RawClients) {
  ServerOptions options;
  options.max_body = 100000;
  options.max_header = 4096;
  options.read_timeout_s = 1.0;
  options.max_queue = 2;
  options.max_connections = 20;
  options.max_tokens = 2000;
  const RunningServer server(options);
  EXPECT_EQ(server.client("python3", "hostile_client.py", "open"), 0);
}

TEST(FakeServer, KeyOverAllRoutes) {
  ServerOptions options;
  options.api_key = "correct-horse";
  const RunningServer server(options);
  EXPECT_EQ(server.client("python3", "hostile_client.py", "key correct-horse"), 0);
}

TEST(FakeServer, OpenAiClient) {
  const std::string python = std::string(ISOTONE_SOURCE_DIR) + "/.cache/venv-openai-client/bin/python";
  if (!std::filesystem::exists(python)) {
    GTEST_SKIP() << "no virtual environment at " << python << "; make it with tools/venv.sh openai-client openai==2.*";
  }
  const RunningServer server({});
  EXPECT_EQ(server.client(python, "openai_client.py", "fake"), 0);
}

TEST(FakeServer, StopEndsARunningAnswerAfterTheGracePeriod) {
  ServerOptions options;
  options.grace_s = 0.1;
  RunningServer server(options);
  // An answer that would take minutes: stop() must not wait for it.
  std::thread client([&] { EXPECT_EQ(server.client("python3", "hostile_client.py", "endless"), 0); });
  while (server.fake->tokens_read < 1200) {
    std::this_thread::yield();
  }
  server.server->stop();
  server.thread.join();
  client.join();
  server.thread = std::thread([] {});
}

TEST(FakeServer, RefusesWhatItCannotListenOn) {
  const auto model = fake_loaded_model(std::make_unique<FakeModel>(byte_tokens("x")));
  ServerOptions options;
  options.host = "not an address";
  EXPECT_THROW(HttpServer(*model, options), Error);
  options.host = "0.0.0.0";  // reachable from outside, and no key
  EXPECT_THROW(HttpServer(*model, options), Error);
  options.host = "127.0.0.1";
  options.port = 70000;
  EXPECT_THROW(HttpServer(*model, options), Error);
  options.port = 0;
  const HttpServer first(*model, options);
  options.port = first.port();
  EXPECT_THROW(HttpServer(*model, options), Error);
}

}  // namespace
}  // namespace isotone::serve
