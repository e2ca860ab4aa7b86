// One thread of coroutines for the network, one thread (GenerationQueue) for the model. Everything of a connection
// lives on the network's thread; the model's thread hands pieces over by posting them.
#include "serve/http_server.h"

#include <algorithm>

#include "base/error.h"
#include "serve/http_impl.h"

namespace isotone::serve {
namespace {

/// How long, and how much, a closing connection is drained so that the client can read the error it was sent.
constexpr double kLingerSeconds = 2.0;
constexpr std::size_t kLingerBytes = 64 << 20;

constexpr std::string_view kRoutes[] = {"/v1/chat/completions", "/v1/completions", "/v1/models", "/health", "/metrics"};

/// Takes the same time whatever is presented, its length apart.
bool equal_keys(std::string_view presented, std::string_view key) {
  std::size_t differs = presented.size() ^ key.size();
  for (std::size_t i = 0; i < presented.size(); ++i) {
    differs |= static_cast<unsigned char>(presented[i] ^ key[i % key.size()]);
  }
  return differs == 0;
}

}  // namespace

HttpServer::Impl::Impl(LoadedModel& m, ServerOptions o)
    : model(m), options(std::move(o)), queue(model, options.max_queue) {
  started_at =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  bind();
}

void HttpServer::Impl::bind() {
  ErrorCode ec;
  const auto address = asio::ip::make_address(options.host == "localhost" ? "127.0.0.1" : options.host, ec);
  require(!ec, "--host {} is not an IP address; give one such as 127.0.0.1 or 0.0.0.0", options.host);
  require(options.port >= 0 && options.port <= 65535, "--port is {}; it must be 0 (any free one) to 65535",
          options.port);
  require(address.is_loopback() || !options.api_key.empty(),
          "--host {} can be reached from other machines; set a key (--api-key-file, or ISOTONE_API_KEY) or stay on "
          "127.0.0.1",
          options.host);
  const tcp::endpoint endpoint(address, static_cast<std::uint16_t>(options.port));
  acceptor.open(endpoint.protocol(), ec);
  if (!ec) {
    acceptor.set_option(asio::socket_base::reuse_address(true), ec);
    acceptor.bind(endpoint, ec);
  }
  if (!ec) {
    acceptor.listen(asio::socket_base::max_listen_connections, ec);
  }
  require(!ec, "cannot listen on {} port {}: {}; choose another with --port (0 takes any free one)", options.host,
          options.port, ec.message());
}

// ---- life ----
void HttpServer::Impl::run(bool handle_signals) {
  if (handle_signals) {
    signals.add(SIGINT);
    signals.add(SIGTERM);
    wait_signal();
  }
  asio::co_spawn(io, accept(), asio::detached);
  io.run();
}

void HttpServer::Impl::wait_signal() {
  signals.async_wait([this](ErrorCode ec, int) {
    if (ec) {
      return;
    }
    if (stopping) {
      io.stop();
      return;
    }
    begin_stop();
    if (!connections.empty()) {
      wait_signal();
    }
  });
}

void HttpServer::Impl::begin_stop() {
  if (stopping) {
    return;
  }
  stopping = true;
  ErrorCode ignored;
  acceptor.close(ignored);
  for (const auto& c : connections) {
    if (!c->busy) {
      c->socket.cancel(ignored);
    }
  }
  grace.expires_after(to_duration(options.grace_s));
  grace.async_wait([this](ErrorCode ec) {
    if (ec) {
      return;
    }
    abandon = true;  // waiting answers see it at their next look
    grace.expires_after(to_duration(kLingerSeconds + 1.0));
    grace.async_wait([this](ErrorCode late) {
      if (!late) {
        io.stop();
      }
    });
  });
  end_if_idle();
}

void HttpServer::Impl::end_if_idle() {
  if (stopping && connections.empty()) {
    grace.cancel();
    ErrorCode ignored;
    signals.cancel(ignored);
  }
}

asio::awaitable<void> HttpServer::Impl::accept() {
  while (!stopping) {
    auto [ec, socket] = co_await acceptor.async_accept(kAwait);
    if (stopping) {
      break;
    }
    if (ec) {  // out of file descriptors, most likely: wait for some to come back
      asio::steady_timer pause(io, std::chrono::milliseconds(100));
      co_await pause.async_wait(kAwait);
      continue;
    }
    ErrorCode ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    if (static_cast<int>(connections.size()) >= options.max_connections) {
      refuse(std::move(socket));
      continue;
    }
    auto connection = std::make_shared<Connection>(std::move(socket));
    connections.insert(connection);
    metrics.connections = static_cast<int>(connections.size());
    asio::co_spawn(io, serve(connection), [this, connection](const std::exception_ptr&) {
      connections.erase(connection);
      metrics.connections = static_cast<int>(connections.size());
      end_if_idle();
    });
  }
}

/// Too many connections: says so without waiting for anything.
void HttpServer::Impl::refuse(tcp::socket socket) {
  const std::string body =
      error_body({503, "too many connections are open; try again later", "server_error", "", "too_many_connections"});
  const std::string text = fmt::format(
      "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: {}\r\n"
      "Retry-After: 1\r\nConnection: close\r\n\r\n{}",
      body.size(), body);
  ErrorCode ignored;
  socket.non_blocking(true, ignored);
  socket.write_some(asio::buffer(text), ignored);
  socket.shutdown(tcp::socket::shutdown_send, ignored);
  count("other", 503);
}

void HttpServer::Impl::count(std::string_view target, int status) {
  const bool known = std::find(std::begin(kRoutes), std::end(kRoutes), target) != std::end(kRoutes);
  ++metrics.requests[{known ? std::string(target) : "other", status}];
}

// ---- one connection ----
asio::awaitable<void> HttpServer::Impl::serve(std::shared_ptr<Connection> c) {
  beast::flat_buffer buffer;
  bool keep = true;
  while (keep && !stopping) {
    http::request_parser<http::string_body> parser;
    parser.header_limit(static_cast<std::uint32_t>(options.max_header));
    parser.body_limit(static_cast<std::uint64_t>(options.max_body));
    std::optional<ApiError> error;
    {
      const Deadline deadline(c->socket, options.read_timeout_s);
      ErrorCode ec = std::get<0>(co_await http::async_read_header(c->socket, buffer, parser, kAwait));
      if (!ec && !authorised(parser.get())) {
        error = ApiError{401, "the API key is missing or wrong; send it as \"Authorization: Bearer KEY\"",
                         "authentication_error", "", "invalid_api_key"};
      } else if (!ec) {
        if (beast::iequals(parser.get()[http::field::expect], "100-continue")) {
          const std::string go_on = "HTTP/1.1 100 Continue\r\n\r\n";
          ec = std::get<0>(co_await asio::async_write(c->socket, asio::buffer(go_on), kAwait));
        }
        if (!ec) {
          ec = std::get<0>(co_await http::async_read(c->socket, buffer, parser, kAwait));
        }
      }
      const bool began = parser.got_some() || buffer.size() > 0;
      if (ec && (!began || stopping || !explain(ec, deadline.expired(), error))) {
        co_return;
      }
    }
    c->busy = true;
    const HttpRequest& request = parser.get();
    const auto start = Clock::now();
    const std::string target(request.target().substr(0, request.target().find('?')));
    int status = 0;
    if (error) {
      keep = false;
      status = error->status;
      const Reply reply = error_reply(*error);
      co_await write(*c, reply, request, keep);
      co_await linger(*c, buffer);
    } else {
      keep = request.keep_alive();
      status = co_await answer(*c, request, target, keep);
    }
    c->busy = false;
    count(target, status);
    metrics.request_seconds.observe(seconds_since(start));
    if (options.log) {
      std::string shown = target.substr(0, 200);
      std::replace_if(
          shown.begin(), shown.end(), [](unsigned char ch) { return ch < 0x21 || ch > 0x7E; }, '?');
      options.log(
          fmt::format("{} {} {} {:.3f} s", std::string(request.method_string()), shown, status, seconds_since(start)));
    }
  }
  ErrorCode ignored;
  c->socket.shutdown(tcp::socket::shutdown_both, ignored);
}

bool HttpServer::Impl::authorised(const HttpRequest& request) const {
  if (options.api_key.empty()) {
    return true;
  }
  const auto header = request[http::field::authorization];
  const std::string_view value(header.data(), header.size());
  return value.size() > 7 && beast::iequals(value.substr(0, 7), "bearer ") &&
         equal_keys(value.substr(7), options.api_key);
}

/// What to tell the client after a failed read; false if nobody is there to be told.
bool HttpServer::Impl::explain(ErrorCode ec, bool timed_out, std::optional<ApiError>& error) const {
  const auto request_error = [&](int status, std::string message, std::string code) {
    error = ApiError{status, std::move(message), "invalid_request_error", "", std::move(code)};
    return true;
  };
  if (timed_out) {
    return request_error(408, fmt::format("the request did not arrive within {} s", options.read_timeout_s), "timeout");
  }
  if (ec == http::error::body_limit) {
    return request_error(413, fmt::format("the body is longer than {} bytes", options.max_body), "body_too_large");
  }
  if (ec == http::error::header_limit || ec == http::error::buffer_overflow) {
    return request_error(431, fmt::format("the headers are longer than {} bytes", options.max_header),
                         "header_too_large");
  }
  if (ec == http::error::partial_message) {
    return request_error(400, "the connection ended before the request did", "incomplete_request");
  }
  if (ec.category() == http::make_error_code(http::error::bad_method).category() && ec != http::error::end_of_stream) {
    return request_error(400, "not a valid HTTP request: " + ec.message(), "bad_http");
  }
  return false;
}

/// Ends the sending side and reads on for a while: closing with unread data would reset the connection, and the
/// client might never see the answer.
asio::awaitable<void> HttpServer::Impl::linger(Connection& c, beast::flat_buffer& buffer) {
  ErrorCode ec;
  c.socket.shutdown(tcp::socket::shutdown_send, ec);
  const Deadline deadline(c.socket, kLingerSeconds);
  std::size_t drained = 0;
  while (!ec && drained < kLingerBytes && !deadline.expired()) {
    buffer.clear();
    std::size_t n = 0;
    std::tie(ec, n) = co_await c.socket.async_read_some(buffer.prepare(65536), kAwait);
    drained += n;
  }
}

/// Answers one request and returns the status. `keep` turns false if the connection must end.
asio::awaitable<int> HttpServer::Impl::answer(Connection& c, const HttpRequest& request, const std::string& target,
                                              bool& keep) {
  const bool chat = target == "/v1/chat/completions";
  if (chat || target == "/v1/completions") {
    if (request.method() == http::verb::post) {
      co_return co_await complete(c, request, chat, keep);
    }
    co_return co_await not_allowed(c, request, "POST", keep);
  }
  Reply reply;
  if (target == "/health") {
    reply.body = health_body(model.name, stopping);
  } else if (target == "/v1/models") {
    reply.body = models_body(model.name, started_at);
  } else if (target == "/v1/models/" + model.name) {
    reply.body = model_body(model.name, started_at);
  } else if (target == "/metrics") {
    reply.body = metrics.text(queue.waiting(), queue.running());
    reply.content_type = "text/plain; version=0.0.4";
  } else {
    reply = error_reply({404, "there is no such route; see docs/serving.md for those that are", "invalid_request_error",
                         "", "unknown_url"});
  }
  if (reply.status == 200 && request.method() != http::verb::get) {
    co_return co_await not_allowed(c, request, "GET", keep);
  }
  co_await write(c, reply, request, keep);
  co_return reply.status;
}

asio::awaitable<int> HttpServer::Impl::not_allowed(Connection& c, const HttpRequest& request, const char* allowed,
                                                   bool& keep) {
  Reply reply = error_reply(
      {405, fmt::format("this route takes {} only", allowed), "invalid_request_error", "", "method_not_allowed"});
  reply.allow = allowed;
  co_await write(c, reply, request, keep);
  co_return 405;
}

asio::awaitable<void> HttpServer::Impl::write(Connection& c, const Reply& reply, const HttpRequest& request,
                                              bool& keep) {
  http::response<http::string_body> response;
  response.version(request.version() == 10 ? 10 : 11);
  response.result(static_cast<unsigned>(reply.status));
  response.set(http::field::server, "isotone");
  response.set(http::field::content_type, reply.content_type);
  if (reply.status == 401) {
    response.set(http::field::www_authenticate, "Bearer");
  } else if (reply.status == 429 || reply.status == 503) {
    response.set(http::field::retry_after, "1");
  }
  if (!reply.allow.empty()) {
    response.set(http::field::allow, reply.allow);
  }
  keep = keep && !stopping;
  response.keep_alive(keep);
  response.body() = reply.body;
  response.prepare_payload();
  const Deadline deadline(c.socket, options.write_timeout_s);
  const ErrorCode ec = std::get<0>(co_await http::async_write(c.socket, response, kAwait));
  keep = keep && !ec;
}

asio::awaitable<bool> HttpServer::Impl::write_raw(Connection& c, const std::string& text) {
  const Deadline deadline(c.socket, options.write_timeout_s);
  const ErrorCode ec = std::get<0>(co_await asio::async_write(c.socket, asio::buffer(text), kAwait));
  co_return !ec;
}

HttpServer::HttpServer(LoadedModel& model, ServerOptions options)
    : impl_(std::make_unique<Impl>(model, std::move(options))) {}

HttpServer::~HttpServer() = default;

int HttpServer::port() const {
  return impl_->acceptor.local_endpoint().port();
}

void HttpServer::run(bool handle_signals) {
  impl_->run(handle_signals);
}

void HttpServer::stop() {
  asio::post(impl_->io, [this] { impl_->begin_stop(); });
}

}  // namespace isotone::serve
