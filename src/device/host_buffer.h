// A buffer in ordinary memory, for devices that live in the host's.
#pragma once

#include <cstdlib>
#include <cstring>

#include "device/device.h"

namespace isotone::device {

class HostBuffer : public Buffer {
 public:
  explicit HostBuffer(std::size_t bytes)
      : bytes_(bytes), data_(static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 127) / 64 * 64)), &std::free) {
    if (data_ == nullptr) {
      throw std::bad_alloc();
    }
  }
  [[nodiscard]] std::size_t bytes() const override { return bytes_; }
  void read(void* to) const override {
    if (bytes_ > 0) {
      std::memcpy(to, data_.get(), bytes_);
    }
  }
  [[nodiscard]] const void* host() const override { return data_.get(); }
  [[nodiscard]] std::byte* data() { return data_.get(); }

 private:
  std::size_t bytes_;
  std::unique_ptr<std::byte, void (*)(void*)> data_;
};

}  // namespace isotone::device
