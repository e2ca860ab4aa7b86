// The OpenAI-compatible HTTP server: one process, one model, one generation at a time in the order of arrival.
// Loopback by default. docs/serving.md lists routes, parameters and errors.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "serve/loaded_model.h"

namespace isotone::serve {

struct ServerOptions {
  /// Address to listen on; anything but a loopback address needs `api_key` or throws.
  std::string host = "127.0.0.1";
  /// 0: any free port; see HttpServer::port().
  int port = 8000;
  /// If set, every route wants "Authorization: Bearer KEY".
  std::string api_key;
  /// Longest request body in bytes.
  std::int64_t max_body = 4 << 20;
  /// Longest request line and headers together in bytes.
  std::int64_t max_header = 16 << 10;
  /// Cap on max_tokens of a request, and what a request without max_tokens gets; 0: what the context holds.
  std::int64_t max_tokens = 0;
  /// Connections open at once; further ones get 503.
  int max_connections = 256;
  /// Requests waiting for the model; further ones get 429.
  int max_queue = 64;
  /// Seconds a client may take for a whole request, and may stay idle between requests.
  double read_timeout_s = 30.0;
  /// Seconds a client may take to accept a part of the answer.
  double write_timeout_s = 30.0;
  /// Seconds that running answers get to finish after stop().
  double grace_s = 5.0;
  /// Gets one line per request (method, target, status, seconds); empty: no log.
  std::function<void(const std::string& line)> log;
};

class HttpServer {
 public:
  /// Binds and listens; throws Error if the address cannot be had. `model` outlives the server.
  HttpServer(LoadedModel& model, ServerOptions options);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  [[nodiscard]] int port() const;
  /// Serves until stop(), or until SIGINT or SIGTERM if `handle_signals` (a second signal ends at once).
  void run(bool handle_signals);
  /// May be called from any thread: takes no new work, lets the running answer finish within grace_s, then ends run().
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace isotone::serve
