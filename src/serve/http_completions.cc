// The completion routes: from a request's body to the answer on the wire, whole or as a stream, watching that its
// client is still there.
#include <poll.h>

#include "base/error.h"
#include "serve/admission.h"
#include "serve/http_impl.h"

namespace isotone::serve {
namespace {

/// How often a waiting answer looks whether its client is still there.
constexpr auto kClientPoll = std::chrono::milliseconds(20);

/// The client has closed its side, or the connection broke. One that only shuts down its sending side counts as gone.
bool client_gone(tcp::socket& socket) {
  pollfd p{socket.native_handle(), POLLRDHUP, 0};
  return ::poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0;
}

ApiError shutting_down() {
  return {503, "the server is shutting down; send the request again elsewhere or later", "server_error", "",
          "shutdown"};
}

void check_content_type(const HttpRequest& request) {
  const auto type = request[http::field::content_type];
  if (!beast::iequals(type.substr(0, 16), "application/json")) {
    throw ApiError{415, "the body must be JSON; send the header \"Content-Type: application/json\"",
                   "invalid_request_error", "", "unsupported_media_type"};
  }
}

std::string framed(bool chunked, std::string_view text) {
  return chunked ? fmt::format("{:x}\r\n{}\r\n", text.size(), text) : std::string(text);
}

}  // namespace

struct HttpServer::Impl::Answer {
  const AnswerHead& head;
  const ApiRequest& wanted;
  const HttpRequest& request;
  bool& keep;
  Clock::time_point submitted;
  [[nodiscard]] bool chunked() const { return request.version() == 11; }
  bool begun = false;     // the head of a stream is out
  bool stop_job = false;  // the server is going down
};

asio::awaitable<int> HttpServer::Impl::complete(Connection& c, const HttpRequest& request, bool chat, bool& keep) {
  std::optional<Admission> admission;
  std::optional<ApiError> error;
  try {
    check_content_type(request);
    // Templates and tokenising of a long text take a while: not on the network's thread.
    auto work = [this, &request, chat]() -> asio::awaitable<Admission> {
      co_return admit(model, request.body(), chat, options.max_tokens);
    };
    admission = co_await asio::co_spawn(parsers, work, asio::use_awaitable);
  } catch (const ApiError& e) {
    error = e;
  } catch (const std::exception& e) {
    error = ApiError{500, e.what(), "server_error", "", "internal_error"};
  }
  if (error) {
    const Reply reply = error_reply(*error);
    co_await write(c, reply, request, keep);
    co_return error->status;
  }
  auto box = std::make_shared<Mailbox>(io);
  const auto job = make_job(admission->request, box);
  const auto submitted = Clock::now();
  if (!queue.submit(job)) {
    ++metrics.rejected_queue_full;
    // Not within the co_await: g++ 12 destroys aggregates made there twice.
    const Reply reply = error_reply({429, fmt::format("{} requests wait already; try again later", options.max_queue),
                                     "rate_limit_error", "", "queue_full"});
    co_await write(c, reply, request, keep);
    co_return 429;
  }
  Answer state{admission->head, admission->request, request, keep, submitted};
  const int status = co_await deliver(c, state, *box);
  if (status < 0 || state.stop_job) {
    queue.cancel(job);
  }
  if (status < 0) {
    ++metrics.cancelled;
    keep = false;
    co_return 499;  // as nginx calls a client that closed
  }
  co_return status;
}

std::shared_ptr<GenerationJob> HttpServer::Impl::make_job(const ApiRequest& request,
                                                          const std::shared_ptr<Mailbox>& box) {
  auto job = std::make_shared<GenerationJob>();
  job->request = request.generation;
  const auto post = [this, box](Event event) {
    asio::post(io, [box, event = std::move(event)]() mutable {
      box->events.push_back(std::move(event));
      box->signal.cancel();
    });
  };
  job->on_start = [post] {
    Event e;
    e.started = true;
    post(std::move(e));
  };
  if (request.stream) {
    job->on_piece = [post](std::string_view text, std::span<const nn::Sample> tokens) {
      Event e;
      e.text = text;
      e.tokens.assign(tokens.begin(), tokens.end());
      post(std::move(e));
    };
  }
  job->on_done = [post](Generation g) {
    Event e;
    e.done = std::move(g);
    post(std::move(e));
  };
  job->on_error = [post](std::string message) {
    Event e;
    e.error = ApiError{500, std::move(message), "server_error", "", "internal_error"};
    post(std::move(e));
  };
  return job;
}

/// The next event; nothing if the client went away.
asio::awaitable<std::optional<Event>> HttpServer::Impl::next(Connection& c, Mailbox& box) {
  for (;;) {
    if (client_gone(c.socket)) {
      co_return std::nullopt;
    }
    if (!box.events.empty()) {
      Event e = std::move(box.events.front());
      box.events.pop_front();
      co_return e;
    }
    if (abandon) {
      Event e;
      e.error = shutting_down();
      co_return e;
    }
    box.signal.expires_after(kClientPoll);
    co_await box.signal.async_wait(kAwait);
  }
}

/// Writes the answer as it comes. Returns the status, or -1 if the client went away.
asio::awaitable<int> HttpServer::Impl::deliver(Connection& c, Answer& a, Mailbox& box) {
  for (;;) {
    std::optional<Event> event = co_await next(c, box);
    if (!event) {
      co_return -1;
    }
    if (event->started) {
      metrics.queue_seconds.observe(seconds_since(a.submitted));
      continue;
    }
    if (event->error) {
      a.stop_job = true;
      if (!a.begun) {
        const Reply reply = error_reply(*event->error);
        co_await write(c, reply, a.request, a.keep);
        co_return event->error->status;
      }
      a.keep = false;
      const std::string last = framed(a.chunked(), error_event(*event->error)) + (a.chunked() ? "0\r\n\r\n" : "");
      co_await write_raw(c, last);
      co_return event->error->status;
    }
    if (event->done) {
      count_tokens(*event->done);
    }
    if (!a.wanted.stream) {
      Reply reply;
      reply.body = answer_body(a.head, *event->done, model.tokenizer);
      co_await write(c, reply, a.request, a.keep);
      co_return 200;
    }
    std::string out;
    if (!a.begun) {
      out = stream_head(a);
    }
    bool ended = append(a, *event, out);
    while (!ended && !box.events.empty() && !box.events.front().error && !box.events.front().started) {
      if (box.events.front().done) {
        count_tokens(*box.events.front().done);
      }
      ended = append(a, box.events.front(), out);
      box.events.pop_front();
    }
    if (!out.empty() && !co_await write_raw(c, out)) {
      co_return -1;
    }
    if (ended) {
      co_return 200;
    }
  }
}

void HttpServer::Impl::count_tokens(const Generation& g) {
  metrics.prompt_tokens += g.prompt_tokens;
  metrics.reused_tokens += g.reused_tokens;
  metrics.generated_tokens += static_cast<std::int64_t>(g.tokens.size());
  metrics.first_token_seconds.observe(g.timings.first_token_s);
}

/// Headers of a stream and its first event. A client of HTTP/1.0 gets the bare bytes and the connection's end.
std::string HttpServer::Impl::stream_head(Answer& a) {
  a.begun = true;
  a.keep = a.keep && a.chunked() && !stopping;
  std::string out = fmt::format(
      "HTTP/1.{} 200 OK\r\nServer: isotone\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n{}{}\r\n",
      a.chunked() ? 1 : 0, a.chunked() ? "Transfer-Encoding: chunked\r\n" : "", a.keep ? "" : "Connection: close\r\n");
  if (a.head.chat) {
    out += framed(a.chunked(), role_event(a.head));
  }
  return out;
}

/// Adds the event's bytes to `out`; true if it ends the stream. Tokens without text wait for their text, unless
/// log-probabilities are wanted.
bool HttpServer::Impl::append(Answer& a, const Event& event, std::string& out) {
  if (!event.done) {
    if (!event.text.empty() || (a.head.logprobs && !event.tokens.empty())) {
      out += framed(a.chunked(), piece_event(a.head, event.text, event.tokens, model.tokenizer));
    }
    return false;
  }
  const Generation& g = *event.done;
  out += framed(a.chunked(), finish_event(a.head, g.reason));
  if (a.wanted.include_usage) {
    out += framed(a.chunked(),
                  usage_event(a.head, {g.prompt_tokens, static_cast<std::int64_t>(g.tokens.size()), g.reused_tokens}));
  }
  out += framed(a.chunked(), kDoneEvent);
  if (a.chunked()) {
    out += "0\r\n\r\n";
  }
  return true;
}

}  // namespace isotone::serve
