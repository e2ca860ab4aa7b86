// The format: "Trace Event Format" of the Chromium project, events X (complete) and M (metadata).
#include "train/timeline_file.h"

#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "dist/agree.h"

namespace isotone::train {
namespace {

constexpr int kCompute = 0, kCommunication = 1;

/// Microseconds with all digits: a double's rounding could move a stretch out of the one around it.
std::string microseconds(std::int64_t ns) {
  const std::int64_t size = ns < 0 ? -ns : ns;
  return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", size / 1000, size % 1000);
}

std::string name_event(const char* what, int rank, int track, const std::string& name) {
  return fmt::format(R"({{"name":"{}","ph":"M","pid":{},"tid":{},"args":{{"name":"{}"}}}})", what, rank, track, name);
}

dist::Message time_message(std::int64_t time) {
  dist::Message m(sizeof(time));
  std::memcpy(m.data(), &time, sizeof(time));
  return m;
}

std::int64_t time_of(const dist::Message& m) {
  std::int64_t t = 0;
  require(m.size() == sizeof(t), "a clock's message has {} bytes", m.size());
  std::memcpy(&t, m.data(), sizeof(t));
  return t;
}

}  // namespace

std::int64_t clock_offset(dist::Communicator& ranks, const std::function<std::int64_t()>& clock) {
  constexpr int kTries = 8;
  if (ranks.rank() != 0) {
    for (int i = 0; i < kTries; ++i) {
      static_cast<void>(ranks.receive(0));
      ranks.send(0, time_message(clock()));
    }
    return time_of(ranks.receive(0));
  }
  for (int other = 1; other < ranks.size(); ++other) {
    std::int64_t soonest = INT64_MAX, ahead = 0;
    for (int i = 0; i < kTries; ++i) {
      const std::int64_t asked = clock();
      ranks.send(other, {});
      const std::int64_t theirs = time_of(ranks.receive(other)), answered = clock();
      if (answered - asked < soonest) {
        soonest = answered - asked;
        ahead = asked + soonest / 2 - theirs;
      }
    }
    ranks.send(other, time_message(ahead));
  }
  return 0;
}

std::string timeline_events(const Timeline& timeline, int rank, std::int64_t offset, std::int64_t zero) {
  std::string out = name_event("process_name", rank, kCompute, fmt::format("rank {}", rank)) + ",\n" +
                    name_event("thread_name", rank, kCompute, "compute") + ",\n" +
                    name_event("thread_name", rank, kCommunication, "communication");
  for (const Stretch& s : timeline.stretches()) {
    const bool message = s.work == Work::communication;
    out += fmt::format(
        ",\n"
        R"({{"name":"{}","cat":"{}","ph":"X","pid":{},"tid":{},"ts":{},"dur":{})",
        s.name, work_name(s.work), rank, message ? kCommunication : kCompute, microseconds(s.begin + offset - zero),
        microseconds(s.end - s.begin));
    if (message) {
      out += fmt::format(R"(,"args":{{"rank":{},"bytes":{}}})", s.peer, s.bytes);
    }
    out += "}";
  }
  return out;
}

void write_timeline(const std::string& path, const Timeline& timeline, std::int64_t offset, std::int64_t zero,
                    dist::Communicator& ranks) {
  const std::string mine = timeline_events(timeline, ranks.rank(), offset, zero);
  const auto bytes = std::as_bytes(std::span(mine));
  std::string all = mine;
  if (ranks.rank() != 0) {
    ranks.send(0, {bytes.begin(), bytes.end()});
  }
  for (int other = 1; ranks.rank() == 0 && other < ranks.size(); ++other) {
    const dist::Message m = ranks.receive(other);
    all += ",\n";
    all.append(reinterpret_cast<const char*>(m.data()), m.size());
  }
  dist::together(ranks, [&] {
    if (ranks.rank() == 0) {
      write_file_atomic(path, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n" + all + "\n]}\n");
    }
  });
}

}  // namespace isotone::train
