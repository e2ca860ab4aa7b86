#include "dist/in_process.h"

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/error.h"

namespace isotone::dist {
namespace {

/// The mail of all ranks, and the first failure.
struct PostOffice {
  std::mutex mutex;
  std::condition_variable arrived;
  std::map<std::pair<int, int>, std::deque<std::pair<std::string, Message>>> mail;  // by (from, to)
  std::optional<std::string> failure;
};

class Desk : public Communicator {
 public:
  Desk(PostOffice& office, int rank, int size) : office_(office), rank_(rank), size_(size) {}
  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }

  void send(int to, Message message) override {
    check(to);
    {
      const std::lock_guard lock(office_.mutex);
      office_.mail[{rank_, to}].emplace_back(calls_.current().substr(0, CallLog::kCompared), std::move(message));
    }
    office_.arrived.notify_all();
  }

  Message receive(int from) override {
    check(from);
    std::unique_lock lock(office_.mutex);
    auto& box = office_.mail[{from, rank_}];
    office_.arrived.wait(lock, [&] { return !box.empty() || office_.failure; });
    require(!box.empty(), "waiting for rank {}: {}", from, office_.failure.value_or(""));
    auto [call, message] = std::move(box.front());
    box.pop_front();
    lock.unlock();
    calls_.check(from, call);
    return std::move(message);
  }

  [[nodiscard]] CallLog& calls() override { return calls_; }

 private:
  void check(int other) const {
    require(other >= 0 && other < size_ && other != rank_, "rank {} of {} cannot exchange messages with rank {}", rank_,
            size_, other);
  }
  PostOffice& office_;
  int rank_;
  int size_;
  CallLog calls_;
};

}  // namespace

void run_in_process(int ranks, const std::function<void(Communicator&)>& body) {
  require(ranks >= 1 && ranks <= 1024, "{} ranks in one process; from 1 to 1024 are taken", ranks);
  PostOffice office;
  const auto failed = [&](int rank, const std::string& what) {
    {
      const std::lock_guard lock(office.mutex);
      if (!office.failure) {
        office.failure = fmt::format("rank {}: {}", rank, what);
      }
    }
    office.arrived.notify_all();
  };
  std::vector<std::jthread> threads;
  threads.reserve(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        Desk desk(office, rank, ranks);
        body(desk);
      } catch (const std::exception& e) {
        failed(rank, e.what());
      }
    });
  }
  threads.clear();  // joins
  require(!office.failure, "{}", office.failure.value_or(""));
}

}  // namespace isotone::dist
