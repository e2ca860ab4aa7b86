#include "data/http_get.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <chrono>
#include <optional>

#include "base/error.h"

namespace isotone::data {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

namespace {

using Request = http::request<http::empty_body>;

template <class Stream>
asio::awaitable<HttpAnswer> ask(Stream& stream, const Request& request, std::uint64_t most) {
  co_await http::async_write(stream, request, asio::use_awaitable);
  beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
  parser.body_limit(most);
  parser.skip(request.method() == http::verb::head);
  co_await http::async_read(stream, buffer, parser, asio::use_awaitable);
  HttpAnswer answer;
  answer.status = static_cast<int>(parser.get().result_int());
  answer.etag = std::string(parser.get()[http::field::etag]);
  answer.content_range = std::string(parser.get()[http::field::content_range]);
  answer.length = parser.content_length().value_or(0);
  answer.body = std::move(parser.get().body());
  co_return answer;
}

asio::awaitable<HttpAnswer> exchange(const HttpAddress& to, const Request& request, std::uint64_t most, int seconds) {
  const auto executor = co_await asio::this_coro::executor;
  asio::ip::tcp::resolver resolver(executor);
  const auto found = co_await resolver.async_resolve(to.host, to.port, asio::use_awaitable);
  const auto limit = std::chrono::seconds(seconds);
  if (!to.tls) {
    beast::tcp_stream stream(executor);
    stream.expires_after(limit);
    co_await stream.async_connect(found, asio::use_awaitable);
    co_return co_await ask(stream, request, most);
  }
  asio::ssl::context context(asio::ssl::context::tls_client);
  context.set_default_verify_paths();
  beast::ssl_stream<beast::tcp_stream> stream(executor, context);
  stream.set_verify_mode(asio::ssl::verify_peer);
  stream.set_verify_callback(asio::ssl::host_name_verification(to.host));
  require(SSL_set_tlsext_host_name(stream.native_handle(), to.host.c_str()) == 1, "TLS: '{}' is no host's name",
          to.host);
  beast::get_lowest_layer(stream).expires_after(limit);
  co_await beast::get_lowest_layer(stream).async_connect(found, asio::use_awaitable);
  co_await stream.async_handshake(asio::ssl::stream_base::client, asio::use_awaitable);
  co_return co_await ask(stream, request, most);
}

}  // namespace

HttpAddress parse_address(const std::string& url) {
  HttpAddress a;
  a.tls = url.starts_with("https://");
  require(a.tls || url.starts_with("http://"), "'{}' is no address such as https://host or http://host:port", url);
  std::string rest = url.substr(a.tls ? 8 : 7);
  while (rest.ends_with("/")) {
    rest.pop_back();
  }
  const std::size_t colon = rest.rfind(':');
  a.host = rest.substr(0, colon);
  a.port = colon == std::string::npos ? (a.tls ? "443" : "80") : rest.substr(colon + 1);
  require(!a.host.empty() && a.host.find_first_of("/@?# ") == std::string::npos && !a.port.empty() &&
              a.port.find_first_not_of("0123456789") == std::string::npos,
          "'{}' is no address such as https://host or http://host:port", url);
  return a;
}

HttpAnswer http_get(const HttpAddress& address, const std::string& method, const std::string& target,
                    const std::vector<std::pair<std::string, std::string>>& headers, std::uint64_t most, int seconds) {
  Request request(method == "HEAD" ? http::verb::head : http::verb::get, target, 11);
  for (const auto& [name, value] : headers) {
    request.set(name, value);
  }
  request.set(http::field::connection, "close");
  asio::io_context io;
  std::optional<HttpAnswer> answer;
  std::string fault = "no answer";
  asio::co_spawn(io, exchange(address, request, most, seconds), [&](const std::exception_ptr& e, HttpAnswer a) {
    if (!e) {
      answer = std::move(a);
      return;
    }
    try {
      std::rethrow_exception(e);
    } catch (const std::exception& thrown) {
      fault = thrown.what();
    }
  });
  io.run();
  require(answer.has_value(), "{}:{}: {}", address.host, address.port, fault);
  return std::move(*answer);
}

}  // namespace isotone::data
