#include "backends/cpu/kernels/weight_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <mutex>
#include <new>

namespace isotone::cpu {

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kBlock = std::size_t{32} << 20;

struct Block {
  std::byte* data;
  std::size_t bytes;
  std::size_t used = 0;

  explicit Block(std::size_t size)
      : data(static_cast<std::byte*>(::operator new (size, std::align_val_t{kHugePage}))), bytes(size) {
    madvise(data, bytes, MADV_HUGEPAGE);  // without effect where huge pages are not offered
  }
  ~Block() { ::operator delete (data, std::align_val_t{kHugePage}); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
};

}  // namespace

std::shared_ptr<std::byte> weight_memory(std::size_t bytes) {
  static std::mutex mutex;
  static std::weak_ptr<Block> open;  // the block being filled, for as long as a weight in it lives
  const std::size_t size = (bytes + 63) / 64 * 64;
  const std::lock_guard lock(mutex);
  std::shared_ptr<Block> block = open.lock();
  if (block == nullptr || block->used + size > block->bytes) {
    block = std::make_shared<Block>(std::max(kBlock, (size + kHugePage - 1) / kHugePage * kHugePage));
    open = block;
  }
  std::byte* at = block->data + block->used;
  block->used += size;
  return {block, at};
}

}  // namespace isotone::cpu
