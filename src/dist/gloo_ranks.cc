#include "dist/gloo_ranks.h"

#include <gloo/common/error.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "dist/meeting_point.h"

namespace isotone::dist {

namespace {

/// The meeting point, as Gloo wants it.
class Store : public gloo::rendezvous::Store {
 public:
  explicit Store(const MeetingGuest& guest) : guest_(guest) {}
  void set(const std::string& key, const std::vector<char>& data) override {
    guest_.set("gloo/" + key, {data.begin(), data.end()});
  }
  std::vector<char> get(const std::string& key) override {
    const std::string value = guest_.get("gloo/" + key);
    return {value.begin(), value.end()};
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) {
      static_cast<void>(guest_.get("gloo/" + key));
    }
  }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& /*timeout*/) override { wait(keys); }

 private:
  const MeetingGuest& guest_;
};

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 48;
constexpr auto kAnyTime = std::chrono::hours(24 * 365);

using Buffer = std::unique_ptr<gloo::transport::UnboundBuffer>;

/// Goes before the bytes of a message.
struct Header {
  std::uint64_t length = 0;
  std::uint64_t call_length = 0;
  std::array<char, CallLog::kCompared> call{};  // the beginning of CallLog::current() where it was sent
  explicit Header(std::size_t message_length = 0, std::string_view text = {})
      : length(message_length), call_length(std::min(text.size(), call.size())) {
    std::copy_n(text.begin(), call_length, call.begin());
  }
  [[nodiscard]] std::string_view text() const { return {call.data(), std::min<std::size_t>(call_length, call.size())}; }
};

/// A message on its way: Gloo reads it until the send is done.
struct Sending {
  Header header;
  Message message;
  Buffer head, body;
};

class GlooRanks : public Communicator {
 public:
  GlooRanks(const RankEnvironment& e, std::chrono::milliseconds timeout)
      : rank_(e.rank),
        size_(e.size),
        timeout_(timeout),
        context_(std::make_shared<gloo::rendezvous::Context>(e.rank, e.size)),
        sent_(static_cast<std::size_t>(e.size)),
        received_(static_cast<std::size_t>(e.size)) {
    meet(e);
    sweeper_ = std::jthread([this] { sweep(); });
  }
  ~GlooRanks() override {
    {
      std::unique_lock lock(mutex_);
      ending_ = true;
      changed_.notify_all();
      if (!failed_) {  // what was sent leaves first
        changed_.wait_for(lock, timeout_, [&] { return failed_ || on_the_way_.empty(); });
      }
    }
    context_->closeConnections();  // ends the sweeper's wait
    sweeper_.join();
  }
  GlooRanks(const GlooRanks&) = delete;
  GlooRanks& operator=(const GlooRanks&) = delete;

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }

  void send(int to, Message message) override {
    check(to);
    Sending s;
    s.header = Header(message.size(), calls_.current());
    s.message = std::move(message);
    const std::lock_guard lock(mutex_);
    on_the_way_.push_back(std::move(s));
    Sending& last = on_the_way_.back();  // a deque: it stays where it is
    std::uint64_t& slot = sent_[static_cast<std::size_t>(to)];
    try {
      last.head = context_->createUnboundBuffer(&last.header, sizeof(Header));
      last.head->send(to, slot++);
      if (last.header.length > 0) {
        last.body = context_->createUnboundBuffer(last.message.data(), last.message.size());
        last.body->send(to, slot++);
      }
    } catch (const std::exception& e) {
      failed_ = true;
      lost("rank {} is gone ({})", to, e.what());
    }
    changed_.notify_all();
  }

  [[nodiscard]] CallLog& calls() override { return calls_; }

  Message receive(int from) override {
    check(from);
    Header header;
    read(from, &header, sizeof(header));
    require(header.length < kMostBytes, "rank {} of {}: a message of {} bytes from rank {} is announced", rank_, size_,
            header.length, from);
    calls_.check(from, header.text());
    Message message(header.length);
    if (!message.empty()) {
      read(from, message.data(), message.size());
    }
    return message;
  }

 private:
  /// Says where this rank is, and what it did last.
  template <class... Args>
  [[noreturn]] void lost(fmt::format_string<Args...> format, Args&&... args) const {
    const std::string calls = calls_.last_calls();
    throw RankLost(fmt::format("rank {} of {}, in {}: {}{}{}", rank_, size_, calls_.here(),
                               fmt::format(format, std::forward<Args>(args)...),
                               calls.empty() ? "" : "; the last calls here:\n", calls));
  }

  void check(int other) const {
    require(other >= 0 && other < size_ && other != rank_, "rank {} of {} cannot exchange messages with rank {}", rank_,
            size_, other);
  }

  void meet(const RankEnvironment& e) {
    std::unique_ptr<MeetingPoint> point;
    if (rank_ == 0) {
      point = std::make_unique<MeetingPoint>(e.host, e.port);
    }
    const MeetingGuest guest(e.host, e.port, timeout_);
    // Everybody says that it is there before Gloo connects all to all: so that who is missing has a name.
    guest.set(fmt::format("here/{}", rank_), "");
    for (int r = 0; r < size_; ++r) {
      try {
        static_cast<void>(guest.get(fmt::format("here/{}", r)));
      } catch (const Error& fault) {
        lost("rank {} did not come ({})", r, fault.what());
      }
    }
    try {
      Store store(guest);
      context_->setTimeout(timeout_);
      auto device = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(guest.own_address().c_str()));
      context_->connectFullMesh(store, device);
      // Rank 0 keeps the meeting point until nobody needs it.
      guest.set(fmt::format("met/{}", rank_), "");
      for (int r = 0; rank_ == 0 && r < size_; ++r) {
        static_cast<void>(guest.get(fmt::format("met/{}", r)));
      }
    } catch (const std::exception& fault) {
      lost("could not be connected with the others: {}", fault.what());
    }
  }

  void read(int from, void* to, std::size_t bytes) {
    try {
      const Buffer buffer = context_->createUnboundBuffer(to, bytes);
      buffer->recv(from, received_[static_cast<std::size_t>(from)]++);
      buffer->waitRecv(nullptr, timeout_);
    } catch (const std::exception& e) {
      const std::string what = e.what();
      {
        const std::lock_guard lock(mutex_);
        failed_ = true;
      }
      if (what.find("Timed out") != std::string::npos) {
        lost("rank {} has sent nothing for {} s: it is stopped, cut off or slow; --timeout allows more", from,
             std::chrono::duration<double>(timeout_).count());
      }
      lost("the connection to rank {} has ended: it, or a rank that it waited for, is gone", from);
    }
  }

  /// Lets go of messages that have left, in the order they were given. Waiting here holds nobody up: Gloo sends each to
  /// its rank by itself, when that asks for it, which may be as late as it likes.
  void sweep() {
    while (true) {
      Sending* first = nullptr;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return ending_ || !on_the_way_.empty(); });
        if (on_the_way_.empty()) {
          return;
        }
        first = &on_the_way_.front();
      }
      try {
        for (const Buffer* buffer : {&first->head, &first->body}) {
          if (*buffer) {
            (*buffer)->waitSend(nullptr, kAnyTime);
          }
        }
      } catch (const std::exception&) {
        // Whoever waits for that rank says so; what can no longer be sent is dropped with the connections.
        const std::lock_guard lock(mutex_);
        failed_ = true;
        changed_.notify_all();
        return;
      }
      const std::lock_guard lock(mutex_);
      on_the_way_.pop_front();
      changed_.notify_all();
    }
  }

  int rank_, size_;
  std::chrono::milliseconds timeout_;
  std::deque<Sending> on_the_way_;  // outlives the connections, which read it
  std::shared_ptr<gloo::rendezvous::Context> context_;
  std::vector<std::uint64_t> sent_, received_;  // slots used, by rank
  CallLog calls_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false, failed_ = false;
  std::jthread sweeper_;
};

}  // namespace

std::unique_ptr<Communicator> join_gloo_ranks(const RankEnvironment& e, std::chrono::milliseconds timeout) {
  return std::make_unique<GlooRanks>(e, timeout);
}

}  // namespace isotone::dist
