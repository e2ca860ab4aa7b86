// What the attention drivers share: scratch memory, where the rows of keys lie, and the stack of unmerged tree nodes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/cpu/kernels/attention.h"
#include "backends/cpu/kernels/attention_tiles.h"
#include "base/parallel.h"
#include "ops/support/attention_check.h"

namespace isotone::cpu::attention {

/// Packed operands of one call are made in batches of about this many floats.
inline constexpr std::int64_t kPackedFloats = std::int64_t{8} << 20;

/// Aligned memory of this thread, kept between calls (fresh pages cost more than a small attention); contents
/// undefined. `slot` 0: what a call shares between its threads; 1: what one worker needs.
float* scratch(int slot, std::int64_t floats);
/// Gives this thread's shared memory back where it is larger than a batch.
void trim_scratch();

/// Width of rows that are right operands: whole vectors of every instruction set.
inline std::int64_t row_width(std::int64_t d) {
  return (d + 15) / 16 * 16;
}

/// Keys and values of one key head: position j of the document or request. Positions outside [begin, end) read as +0.
struct Keys {
  const char* k = nullptr;
  const char* v = nullptr;
  std::int64_t k_stride = 0, v_stride = 0;  // bytes from one position (or slot) to the next
  const std::int32_t* table = nullptr;      // of pages, or null: one stretch
  std::int64_t page = 0, page_stride = 0;   // slots, bytes
  std::int64_t begin = 0, end = 0;

  /// Pointers to the rows of a block of 64; returns how many there are.
  int rows(std::int64_t block, const void** k_rows, const void** v_rows) const;
};

/// A block of 64 keys as the forward tiles want it.
struct PackedBlock {
  float* kt;
  float* v;
  std::int64_t v_stride;  // floats between rows
};
struct PackedSizes {
  std::int64_t kt, v, width;
  PackedSizes(const Tiles& tiles, std::int64_t d)
      : kt(tiles.words(d) * kBlock), v(kBlock * row_width(d)), width(row_width(d)) {}
  std::int64_t both() const { return kt + v; }
  PackedBlock at(float* base) const { return {base, base + kt, width}; }
};
void pack_block(const Tiles& tiles, const Keys& keys, std::int64_t block, std::int64_t d, const PackedBlock& out);

/// The slots of block `index` that lie in `r`.
inline Slots slots_of(Range r, std::int64_t index) {
  const std::int64_t at = index * kBlock;
  const std::int64_t lo = std::clamp<std::int64_t>(r.begin - at, 0, kBlock);
  const std::int64_t hi = std::clamp<std::int64_t>(r.end - at, 0, kBlock);
  return lo < hi ? Slots{static_cast<int>(lo), static_cast<int>(hi)} : Slots{0, 0};
}

/// The unmerged nodes of a tree in prefix form, as a binary counter: item i covers positions [i*unit, (i+1)*unit).
/// Items come in ascending order without a gap. `merge(left, right, sides)` joins the partial results at two places of
/// the stack; rows of which one side saw nothing keep the other side unchanged.
class PrefixStack {
 public:
  PrefixStack(const Range* ranges, int rows, std::int64_t first, std::int64_t unit)
      : ranges_(ranges), rows_(rows), first_(first), unit_(unit) {}

  /// Where the next item's result belongs.
  int place() const { return size_; }

  template <class Merge>
  void push(std::int64_t index, const Merge& merge) {
    nodes_[size_++] = {0, index};
    while (true) {
      Node& top = nodes_[size_ - 1];
      if (top.index % 2 == 0) {
        return;
      }
      if ((top.index << top.level) > first_) {
        join(merge);
      }
      Node& joined = nodes_[size_ - 1];
      joined = {joined.level + 1, joined.index / 2};
    }
  }
  /// Joins what is left, from the right; the result is at place 0.
  template <class Merge>
  void finish(const Merge& merge) {
    while (size_ > 1) {
      join(merge);
    }
  }
  /// Places that a stack over items [first, last) can need.
  static std::int64_t places(std::int64_t first, std::int64_t last) {
    return std::min<std::int64_t>(last - first, std::bit_width(static_cast<std::uint64_t>(last))) + 1;
  }

 private:
  struct Node {
    int level;
    std::int64_t index;
  };

  template <class Merge>
  void join(const Merge& merge) {
    const Node left = nodes_[size_ - 2], right = nodes_[size_ - 1];
    --size_;
    Side sides[kBlock];
    bool all = true;
    for (int r = 0; r < rows_; ++r) {
      const bool in_left = sees(ranges_[r], left), in_right = sees(ranges_[r], right);
      sides[r] = !in_right ? Side::left : in_left ? Side::both : Side::right;
      all = all && sides[r] == Side::both;
    }
    merge(size_ - 1, size_, all ? nullptr : sides);
  }
  bool sees(Range r, Node n) const {
    return r.begin < ((n.index + 1) << n.level) * unit_ && r.end > (n.index << n.level) * unit_;
  }

  const Range* ranges_;
  int rows_;
  std::int64_t first_, unit_;
  int size_ = 0;
  Node nodes_[64];
};

/// Query rows that run together: up to 64, of one key head.
struct TileRows {
  int count = 0;
  const void* q[kBlock];
  Range keys[kBlock];

  /// The blocks that any row sees.
  Range blocks() const;
};

/// Places of (m, l, o) states in worker scratch.
struct States {
  float* base;
  std::int64_t width;
  std::int64_t stride() const { return 2 * kBlock + kBlock * width; }
  float* m(std::int64_t i) const { return base + i * stride(); }
  float* l(std::int64_t i) const { return m(i) + kBlock; }
  float* o(std::int64_t i) const { return m(i) + 2 * kBlock; }
};

/// Worker scratch of run_tile over blocks [first, last).
std::int64_t tile_floats(const Tiles& tiles, std::int64_t d, std::int64_t first, std::int64_t last);
/// Runs the tile's rows over blocks [first, last), first < last; the joined state is at place 0 of the result.
/// `packed`: blocks from `packed_first` on, or null: they are packed on the way.
States run_tile(const Tiles& tiles, const TileRows& rows, const Keys& keys, std::int64_t d, float scale,
                std::int64_t first, std::int64_t last, const float* packed, std::int64_t packed_first, float* memory);

}  // namespace isotone::cpu::attention
