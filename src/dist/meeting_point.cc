#include "dist/meeting_point.h"

#include <boost/asio/ip/tcp.hpp>
#include <condition_variable>
#include <iomanip>
#include <map>
#include <mutex>
#include <thread>

#include "base/error.h"

namespace isotone::dist {

using boost::asio::ip::tcp;

namespace {

// A request is one line "set KEY LENGTH" and LENGTH bytes, or "get KEY"; the answer is "LENGTH" and LENGTH bytes.
constexpr std::size_t kMostBytes = 1 << 20;
constexpr int kMostName = 256;
constexpr auto kQuiet = std::chrono::seconds(30);  // for a guest in the middle of a request

std::string read_bytes(tcp::iostream& stream, std::size_t length) {
  if (length > kMostBytes) {
    stream.setstate(std::ios::failbit);
    return {};
  }
  std::string bytes(length, '\0');
  stream.read(bytes.data(), static_cast<std::streamsize>(length));
  return bytes;
}

}  // namespace

struct MeetingPoint::State {
  boost::asio::io_context io;
  tcp::acceptor acceptor{io};
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::string> values;
  bool closed = false;
  std::jthread listener;
  std::vector<std::jthread> desks;

  void serve(tcp::iostream& stream) {
    stream.expires_after(kQuiet);
    std::string verb, key;
    stream >> std::setw(kMostName) >> verb >> std::setw(kMostName) >> key;
    std::string value;
    if (verb == "set") {
      std::size_t length = 0;
      stream >> length;
      stream.get();
      value = read_bytes(stream, length);
      if (!stream) {
        return;
      }
      {
        const std::lock_guard lock(mutex);
        values[key] = value;
      }
      changed.notify_all();
      value.clear();
    } else if (verb == "get") {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return closed || values.contains(key); });
      if (closed) {
        return;
      }
      value = values[key];
    } else {
      return;
    }
    stream.expires_after(kQuiet);
    stream << value.size() << "\n" << value << std::flush;
  }
};

MeetingPoint::MeetingPoint(const std::string& host, int port) : state_(std::make_unique<State>()) {
  State& s = *state_;
  try {
    tcp::resolver resolver(s.io);
    const tcp::endpoint at = resolver.resolve(host, std::to_string(port))->endpoint();
    s.acceptor.open(at.protocol());
    s.acceptor.set_option(tcp::acceptor::reuse_address(true));
    s.acceptor.bind(at);
    s.acceptor.listen();
  } catch (const boost::system::system_error& e) {
    fail("rank 0 cannot wait for the others at {}:{}: {}; MASTER_ADDR must be this machine's and MASTER_PORT free",
         host, port, e.code().message());
  }
  s.listener = std::jthread([&s] {
    while (true) {
      auto stream = std::make_shared<tcp::iostream>();
      boost::system::error_code fault;
      s.acceptor.accept(stream->socket(), fault);
      {
        const std::lock_guard lock(s.mutex);
        if (s.closed) {
          return;
        }
      }
      if (!fault) {
        s.desks.emplace_back([&s, stream] { s.serve(*stream); });
      }
    }
  });
}

MeetingPoint::~MeetingPoint() {
  State& s = *state_;
  const tcp::endpoint at = s.acceptor.local_endpoint();
  {
    const std::lock_guard lock(s.mutex);
    s.closed = true;
  }
  s.changed.notify_all();
  tcp::iostream knock;  // wakes the listener
  knock.connect(at);
  s.listener.join();
}

MeetingGuest::MeetingGuest(std::string host, int port, std::chrono::milliseconds timeout)
    : host_(std::move(host)), port_(port), timeout_(timeout) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (own_address_.empty()) {
    tcp::iostream stream;
    stream.expires_after(timeout);
    stream.connect(host_, std::to_string(port_));
    if (stream) {
      own_address_ = stream.socket().local_endpoint().address().to_string();
    } else {
      require(std::chrono::steady_clock::now() < end, "nobody answers at {}:{}: {}; rank 0 has not started there",
              host_, port_, stream.error().message());
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // rank 0 may start later
    }
  }
}

std::string MeetingGuest::ask(const std::string& request) const {
  tcp::iostream stream;
  stream.expires_after(timeout_);
  stream.connect(host_, std::to_string(port_));
  stream << request << std::flush;
  std::size_t length = 0;
  stream >> length;
  stream.get();
  std::string value = read_bytes(stream, length);
  require(static_cast<bool>(stream), "no answer from {}:{} within {} s to '{}'", host_, port_,
          std::chrono::duration<double>(timeout_).count(), request.substr(0, request.find('\n')));
  return value;
}

void MeetingGuest::set(const std::string& key, const std::string& value) const {
  static_cast<void>(ask(fmt::format("set {} {}\n{}", key, value.size(), value)));
}

std::string MeetingGuest::get(const std::string& key) const {
  return ask(fmt::format("get {}\n", key));
}

}  // namespace isotone::dist
