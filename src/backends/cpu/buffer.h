// Memory of the CPU backend: recycled blocks, adopted host memory, and weights packed once.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "backends/cpu/kernels/contract.h"
#include "device/device.h"

namespace isotone::cpu {

/// Keeps freed blocks for the next request of about their size, so that a training step does not ask the system for its
/// pages again and again. What is in use and what is kept never exceed together what was in use at
/// worst by more than an eighth. Thread-safe.
class BlockPool {
 public:
  BlockPool() = default;
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;
  /// At least `bytes`, aligned to 64 bytes (2 MiB for large blocks).
  std::byte* take(std::size_t bytes);
  void give_back(std::byte* block, std::size_t bytes);
  /// The size of the block that take(bytes) gives.
  static std::size_t block_bytes(std::size_t bytes);
  /// Bytes of blocks in use, and of those kept.
  [[nodiscard]] std::pair<std::size_t, std::size_t> held() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::pair<std::size_t, std::byte*>> free_;  // oldest first
  std::size_t used_ = 0;
  std::size_t most_used_ = 0;
  std::size_t kept_ = 0;
};

class CpuBuffer : public device::Buffer {
 public:
  /// A block of the pool.
  CpuBuffer(std::shared_ptr<BlockPool> pool, std::size_t bytes);
  /// Host memory that `keep` keeps alive; read only.
  CpuBuffer(const void* from, std::size_t bytes, std::shared_ptr<const void> keep);
  ~CpuBuffer() override;

  [[nodiscard]] std::size_t bytes() const override { return bytes_; }
  void read(void* to) const override;
  [[nodiscard]] const void* host() const override { return data_; }
  /// Packs a matrix for linear() right away, on all threads.
  void set_constant(const ir::Type& type) override;
  [[nodiscard]] bool constant() const { return constant_; }
  [[nodiscard]] std::byte* data() { return data_; }
  /// Whether a plan may write results here: not where the memory is adopted or declared to be constant.
  [[nodiscard]] bool writable() const { return pool_ != nullptr && !constant_; }

  /// The weight [n, k] in this buffer, or the one numbered `part` of several that lie one after another, packed at the
  /// first call and kept. Only for constant buffers.
  const PackedWeight& packed(DType dtype, std::int64_t n, std::int64_t k, std::int64_t part = 0);

 private:
  std::shared_ptr<BlockPool> pool_;
  std::shared_ptr<const void> keep_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  bool constant_ = false;
  std::mutex packing_;
  std::map<std::int64_t, PackedWeight> packed_;  // by part
};

}  // namespace isotone::cpu
