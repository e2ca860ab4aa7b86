// The inside of the HTTP server, shared by its two source files only: what a connection is, time limits, and the state
// that lives on the network's thread.
#pragma once

// Asio gives coroutine frames an operator delete that g++ 12 wrongly takes for a mismatch.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "serve/generation_queue.h"
#include "serve/http_server.h"
#include "serve/metrics.h"
#include "serve/openai_response.h"

namespace isotone::serve {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;
using Clock = std::chrono::steady_clock;
using ErrorCode = boost::system::error_code;
using HttpRequest = http::request<http::string_body>;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

inline Clock::duration to_duration(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}
inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Connection {
  explicit Connection(tcp::socket s) : socket(std::move(s)) {}
  tcp::socket socket;
  bool busy = false;  // a whole request was read and is being answered
};

/// Cancels what the socket waits for once the time is up, again and again until destroyed: an operation made of several
/// reads may start the next one just after a cancel.
class Deadline {
 public:
  Deadline(tcp::socket& socket, double seconds) : state_(std::make_shared<State>(socket)) {
    state_->timer.expires_after(to_duration(seconds));
    arm(state_);
  }
  ~Deadline() {
    state_->alive = false;
    state_->timer.cancel();
  }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;
  [[nodiscard]] bool expired() const { return state_->expired; }

 private:
  struct State {
    explicit State(tcp::socket& s) : timer(s.get_executor()), socket(s) {}
    asio::steady_timer timer;
    tcp::socket& socket;
    bool alive = true;
    bool expired = false;
  };
  static void arm(const std::shared_ptr<State>& state) {
    state->timer.async_wait([state](ErrorCode ec) {
      if (ec || !state->alive) {
        return;
      }
      state->expired = true;
      ErrorCode ignored;
      state->socket.cancel(ignored);
      state->timer.expires_after(std::chrono::milliseconds(50));
      arm(state);
    });
  }
  std::shared_ptr<State> state_;
};

struct Reply {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  std::string allow;  // for 405
};

inline Reply error_reply(const ApiError& e) {
  return {e.status, error_body(e), "application/json", {}};
}

/// What the model's thread tells a waiting answer.
struct Event {
  bool started = false;
  std::string text;
  std::vector<nn::Sample> tokens;
  std::optional<Generation> done;
  std::optional<ApiError> error;
};

struct Mailbox {
  explicit Mailbox(asio::io_context& io) : signal(io) {}
  std::deque<Event> events;
  asio::steady_timer signal;
};

struct HttpServer::Impl {
  LoadedModel& model;
  ServerOptions options;
  std::int64_t started_at = 0;  // seconds since 1970
  asio::io_context io{1};
  tcp::acceptor acceptor{io};
  asio::signal_set signals{io};
  asio::steady_timer grace{io};
  asio::thread_pool parsers{1};
  std::set<std::shared_ptr<Connection>> connections;
  Metrics metrics;
  bool stopping = false;
  bool abandon = false;   // stopping took longer than the grace period
  GenerationQueue queue;  // last: its thread ends before what it posts to

  Impl(LoadedModel& m, ServerOptions o);
  void bind();

  // Life (http_server.cc).
  void run(bool handle_signals);
  void wait_signal();
  void begin_stop();
  void end_if_idle();
  asio::awaitable<void> accept();
  void refuse(tcp::socket socket);
  void count(std::string_view target, int status);

  // One connection (http_server.cc). `keep` turns false where the connection must end after the answer.
  asio::awaitable<void> serve(std::shared_ptr<Connection> c);
  [[nodiscard]] bool authorised(const HttpRequest& request) const;
  bool explain(ErrorCode ec, bool timed_out, std::optional<ApiError>& error) const;
  asio::awaitable<void> linger(Connection& c, beast::flat_buffer& buffer);
  asio::awaitable<int> answer(Connection& c, const HttpRequest& request, const std::string& target, bool& keep);
  asio::awaitable<int> not_allowed(Connection& c, const HttpRequest& request, const char* allowed, bool& keep);
  asio::awaitable<void> write(Connection& c, const Reply& reply, const HttpRequest& request, bool& keep);
  asio::awaitable<bool> write_raw(Connection& c, const std::string& text);

  // Completions (http_completions.cc).
  struct Answer;
  asio::awaitable<int> complete(Connection& c, const HttpRequest& request, bool chat, bool& keep);
  std::shared_ptr<GenerationJob> make_job(const ApiRequest& request, const std::shared_ptr<Mailbox>& box);
  asio::awaitable<std::optional<Event>> next(Connection& c, Mailbox& box);
  asio::awaitable<int> deliver(Connection& c, Answer& a, Mailbox& box);
  void count_tokens(const Generation& g);
  std::string stream_head(Answer& a);
  bool append(Answer& a, const Event& event, std::string& out);
};

}  // namespace isotone::serve
