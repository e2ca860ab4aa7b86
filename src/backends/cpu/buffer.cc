#include "backends/cpu/buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/error.h"

namespace isotone::cpu {

namespace {
constexpr std::size_t kHuge = std::size_t{2} << 20;
}  // namespace

std::size_t BlockPool::block_bytes(std::size_t bytes) {
  // Steps of an eighth of the next lower power of two: at most 12.5 % are wasted and sizes repeat.
  std::size_t step = 64;
  while (step * 16 <= bytes) {
    step *= 2;
  }
  return (bytes + step - 1) / step * step + (bytes == 0 ? 64 : 0);
}

BlockPool::~BlockPool() {
  for (const auto& [size, block] : free_) {
    std::free(block);
  }
}

std::byte* BlockPool::take(std::size_t bytes) {
  const std::size_t size = block_bytes(bytes);
  std::vector<std::byte*> released;
  {
    const std::lock_guard lock(mutex_);
    used_ += size;
    most_used_ = std::max(most_used_, used_);
    for (std::size_t i = free_.size(); i-- > 0;) {
      if (free_[i].first == size) {
        std::byte* block = free_[i].second;
        free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(i));
        kept_ -= size;
        return block;
      }
    }
    std::size_t n = 0;
    while (n < free_.size() && used_ + kept_ > most_used_ + most_used_ / 8) {
      kept_ -= free_[n].first;
      released.push_back(free_[n++].second);
    }
    free_.erase(free_.begin(), free_.begin() + static_cast<std::ptrdiff_t>(n));
  }
  for (std::byte* block : released) {
    std::free(block);
  }
  const std::size_t align = size >= kHuge ? kHuge : 64;
  auto* block = static_cast<std::byte*>(std::aligned_alloc(align, (size + align - 1) / align * align));
  if (block == nullptr) {
    const std::lock_guard lock(mutex_);
    used_ -= size;
    fail("memory: {} bytes could not be had; use a smaller batch, context or model", size);
  }
  if (size >= kHuge) {
    madvise(block, size, MADV_HUGEPAGE);  // fewer page faults and misses; without effect where it is not offered
  }
  return block;
}

void BlockPool::give_back(std::byte* block, std::size_t bytes) {
  const std::size_t size = block_bytes(bytes);
  const std::lock_guard lock(mutex_);
  used_ -= size;
  kept_ += size;
  free_.emplace_back(size, block);
}

std::pair<std::size_t, std::size_t> BlockPool::held() const {
  const std::lock_guard lock(mutex_);
  return {used_, kept_};
}

CpuBuffer::CpuBuffer(std::shared_ptr<BlockPool> pool, std::size_t bytes)
    : pool_(std::move(pool)), data_(pool_->take(bytes)), bytes_(bytes) {}

CpuBuffer::CpuBuffer(const void* from, std::size_t bytes, std::shared_ptr<const void> keep)
    : keep_(std::move(keep)), data_(static_cast<std::byte*>(const_cast<void*>(from))), bytes_(bytes) {}

CpuBuffer::~CpuBuffer() {
  if (pool_ != nullptr) {
    pool_->give_back(data_, bytes_);
  }
}

void CpuBuffer::read(void* to) const {
  if (bytes_ > 0) {
    std::memcpy(to, data_, bytes_);
  }
}

void CpuBuffer::set_constant(const ir::Type& type) {
  constant_ = true;
  if (type.rank() == 2 && (is_float(type.dtype) || is_quantised(type.dtype)) && type.elements() > 0) {
    packed(type.dtype, type.shape[0], type.shape[1]);
  }
}

const PackedWeight& CpuBuffer::packed(DType dtype, std::int64_t n, std::int64_t k, std::int64_t part) {
  const std::lock_guard lock(packing_);
  PackedWeight& kept = packed_[part];
  if (!kept || kept.n() != n || kept.k() != k || kept.dtype() != dtype) {
    const std::byte* from = data_ + static_cast<std::size_t>(part) * storage_bytes(dtype, n * k);
    kept = pack_weight({from, dtype, 0, 0, k, 1}, n, k);
  }
  return kept;
}

}  // namespace isotone::cpu
