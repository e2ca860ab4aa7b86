// Framing: TFRecord, length (u64), masked CRC-32C of it, the message, masked CRC-32C of that; all little-endian
// (tensorflow.org/tutorials/load_data/tfrecord). Messages: tensorboard/compat/proto/event.proto and summary.proto in
// the protocol-buffer encoding (protobuf.dev/programming-guides/encoding).
#include "train/tensorboard.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <cstring>
#include <span>

#include "base/crc32c.h"
#include "base/error.h"

namespace isotone::train {
namespace {

static_assert(std::endian::native == std::endian::little);

enum class Wire : unsigned char { varint = 0, fixed64 = 1, length = 2, fixed32 = 5 };

template <class T>
std::string raw(T value) {
  std::string out(sizeof(T), '\0');
  std::memcpy(out.data(), &value, sizeof(T));
  return out;
}

std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) {
    out += static_cast<char>((value & 0x7F) | 0x80);
  }
  return out + static_cast<char>(value);
}

std::string key(int field, Wire wire) {
  return varint(static_cast<std::uint64_t>(field) << 3 | static_cast<unsigned char>(wire));
}

std::string block(int field, const std::string& bytes) {
  return key(field, Wire::length) + varint(bytes.size()) + bytes;
}

std::string record(const std::string& message) {
  const auto masked = [](std::string_view bytes) {
    const std::uint32_t c = crc32c(bytes);
    return raw<std::uint32_t>(((c >> 15U) | (c << 17U)) + 0xA282EAD8U);
  };
  const std::string length = raw<std::uint64_t>(message.size());
  return length + masked(length) + message + masked(message);
}

// Fields of Event.
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5;
// Of Summary, and of Summary.Value.
constexpr int kValue = 1, kTag = 1, kSimpleValue = 2;

std::string wall_time_field(double t) {
  return key(kWallTime, Wire::fixed64) + raw<double>(t);
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// "events.out.tfevents" must be in it; the seconds and the machine's name are what TensorBoard sorts and shows.
std::string new_name(const std::string& folder) {
  std::array<char, 256> host{};
  require(gethostname(host.data(), host.size() - 1) == 0, "{}: this machine does not say its name", folder);
  for (int n = 0;; ++n) {
    std::string name =
        fmt::format("events.out.tfevents.{}.{}.{}.{}", static_cast<std::int64_t>(now()), host.data(), getpid(), n);
    if (!path_exists(join_path(folder, name))) {
      return name;
    }
  }
}

std::string new_path(const std::string& folder) {
  make_folders(folder);
  return join_path(folder, new_name(folder));
}

}  // namespace

std::string file_version_record(double wall_time) {
  return record(wall_time_field(wall_time) + block(kFileVersion, "brain.Event:2"));
}

std::string step_record(double wall_time, std::int64_t step, const Scalars& scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars) {
    summary += block(kValue, block(kTag, tag) + key(kSimpleValue, Wire::fixed32) + raw(static_cast<float>(value)));
  }
  return record(wall_time_field(wall_time) + key(kStep, Wire::varint) + varint(static_cast<std::uint64_t>(step)) +
                block(kSummary, summary));
}

EventFile::EventFile(const std::string& folder) : path_(new_path(folder)), file_(path_) {
  write(file_version_record(now()));
}

void EventFile::add(std::int64_t step, const Scalars& scalars) {
  write(step_record(now(), step, scalars));
}

void EventFile::write(const std::string& text) {
  file_.write_at(size_, std::as_bytes(std::span(text)));
  size_ += text.size();
}

}  // namespace isotone::train
