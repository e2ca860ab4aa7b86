// The event files, read back by a reader that shares nothing with the writer.
#include "train/tensorboard.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "base/error.h"

namespace isotone::train {
namespace {

/// Bit by bit, so that the writer's table is not believed.
std::uint32_t slow_crc32c(std::string_view bytes) {
  std::uint32_t c = ~0U;
  for (const char b : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      const std::uint32_t in = (static_cast<unsigned char>(b) >> bit) & 1U;
      c = ((c ^ in) & 1U) != 0 ? (c >> 1U) ^ 0x82F63B78U : c >> 1U;
    }
  }
  return ~c;
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}
  [[nodiscard]] bool done() const { return text_.empty(); }
  template <class T>
  T fixed() {
    T value{};
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto b = static_cast<unsigned char>(take(1)[0]);
      value |= static_cast<std::uint64_t>(b & 0x7F) << shift;
      if (b < 0x80) {
        return value;
      }
    }
  }
  std::string_view take(std::size_t n) {
    require(n <= text_.size(), "{} bytes wanted, {} left", n, text_.size());
    const std::string_view out = text_.substr(0, n);
    text_.remove_prefix(n);
    return out;
  }
  std::string_view record() {
    const std::string_view length = take(8);
    std::uint64_t n = 0;
    std::memcpy(&n, length.data(), 8);
    check(length);
    const std::string_view message = take(n);
    check(message);
    return message;
  }

 private:
  void check(std::string_view bytes) {
    const auto masked = fixed<std::uint32_t>() - 0xA282EAD8U;
    require(((masked << 15U) | (masked >> 17U)) == slow_crc32c(bytes), "a checksum differs");
  }
  std::string_view text_;
};

struct Event {
  double wall_time = 0.0;
  std::int64_t step = 0;
  std::string version;
  std::vector<std::pair<std::string, float>> values;
};

void read_value(std::string_view text, Event& e) {
  Reader r(text);
  std::pair<std::string, float> value;
  while (!r.done()) {
    const std::uint64_t key = r.varint();
    if (key == (1 << 3 | 2)) {
      value.first = std::string(r.take(r.varint()));
    } else {
      ASSERT_EQ(key, 2U << 3 | 5U);
      value.second = r.fixed<float>();
    }
  }
  e.values.push_back(value);
}

Event read_event(std::string_view text) {
  Reader r(text);
  Event e;
  while (!r.done()) {
    const std::uint64_t key = r.varint();
    if (key == (1 << 3 | 1)) {
      e.wall_time = r.fixed<double>();
    } else if (key == (2 << 3 | 0)) {
      e.step = static_cast<std::int64_t>(r.varint());
    } else if (key == (3 << 3 | 2)) {
      e.version = std::string(r.take(r.varint()));
    } else {
      EXPECT_EQ(key, 5U << 3 | 2U);
      Reader summary(r.take(r.varint()));
      while (!summary.done()) {
        EXPECT_EQ(summary.varint(), 1U << 3 | 2U);
        read_value(summary.take(summary.varint()), e);
      }
    }
  }
  return e;
}

TEST(Tensorboard, WhatIsWrittenIsReadBack) {
  const std::string folder = testing::TempDir() + "events-" + std::to_string(getpid());
  std::filesystem::remove_all(folder);
  std::vector<std::string> paths;
  {
    EventFile file(join_path(folder, "deep/er"));
    EventFile second(join_path(folder, "deep/er"));
    EXPECT_NE(file.path(), second.path());
    EXPECT_NE(file.path().find("events.out.tfevents."), std::string::npos);
    file.add(1, {{"loss", 2.5}, {"a/b", -1e-30}});
    file.add(std::int64_t{1} << 40, {{std::string(300, 'x'), NAN}});
    file.add(7, {});
    paths = {file.path(), second.path()};
  }
  const std::string text = read_text_file(paths[0]);
  Reader r(text);
  const Event head = read_event(r.record()), one = read_event(r.record()), two = read_event(r.record()),
              three = read_event(r.record());
  EXPECT_TRUE(r.done());
  EXPECT_EQ(head.version, "brain.Event:2");
  EXPECT_GT(head.wall_time, 1.7e9);
  EXPECT_EQ(one.step, 1);
  ASSERT_EQ(one.values.size(), 2U);
  EXPECT_EQ(one.values[0], std::make_pair(std::string("loss"), 2.5F));
  EXPECT_EQ(one.values[1], std::make_pair(std::string("a/b"), -1e-30F));
  EXPECT_EQ(two.step, std::int64_t{1} << 40);
  ASSERT_EQ(two.values.size(), 1U);
  EXPECT_EQ(two.values[0].first, std::string(300, 'x'));
  EXPECT_TRUE(std::isnan(two.values[0].second));
  EXPECT_EQ(three.step, 7);
  EXPECT_TRUE(three.values.empty());
  std::filesystem::remove_all(folder);
}

TEST(Tensorboard, ADamagedFileDoesNotPassTheReader) {
  const std::string good = file_version_record(1.0) + step_record(2.0, 3, {{"loss", 4.0}});
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 4);
    EXPECT_THROW(
        {
          Reader r(bad);
          static_cast<void>(r.record());
          static_cast<void>(r.record());
        },
        Error)
        << i;
  }
}

}  // namespace
}  // namespace isotone::train
