// Shared machinery of the attention drivers; see the header.
#include "backends/cpu/kernels/attention_driver.h"

#include <memory>
#include <new>
#include <string>

#include "base/kernel_log.h"

namespace isotone::cpu::attention {
namespace {

struct AlignedDelete {
  void operator()(float* p) const { ::operator delete[](p, std::align_val_t{64}); }
};
struct Buffer {
  std::unique_ptr<float[], AlignedDelete> data;
  std::int64_t size = 0;
};
Buffer& buffer(int slot) {
  static thread_local Buffer buffers[2];
  return buffers[slot];
}

constexpr float kZeros[kMaxHeadWidth] = {};

}  // namespace

float* scratch(int slot, std::int64_t floats) {
  Buffer& b = buffer(slot);
  if (b.size < floats) {
    b.data.reset();
    b.size = 0;
    b.data.reset(
        static_cast<float*>(::operator new[](static_cast<std::size_t>(floats) * sizeof(float), std::align_val_t{64})));
    b.size = floats;
  }
  return b.data.get();
}

void trim_scratch() {
  Buffer& b = buffer(0);
  if (b.size > kPackedFloats) {
    b = {};
  }
}

const Tiles& tiles_for(DType dtype, const char* op) {
  const Isa isa = current_isa();
  const Tiles* table = tiles_scalar();
#if defined(__x86_64__)
  table = isa == Isa::avx2          ? tiles_avx2()
          : isa == Isa::avx512      ? tiles_avx512()
          : isa == Isa::avx512_bf16 ? tiles_avx512_bf16()
                                    : table;
#elif defined(__aarch64__)
  table = isa == Isa::neon ? tiles_neon() : table;
#endif
  const Tiles& tiles = table[dtype == DType::f32 ? 0 : dtype == DType::bf16 ? 1 : 2];
  log_kernel(std::string(op) + "." + tiles.name + "." + std::string(isa_name(isa)));
  return tiles;
}

int Keys::rows(std::int64_t block, const void** k_rows, const void** v_rows) const {
  const std::int64_t at = block * kBlock;
  const int count = static_cast<int>(std::clamp<std::int64_t>(end - at, 0, kBlock));
  int i = static_cast<int>(std::clamp<std::int64_t>(begin - at, 0, count));
  std::fill_n(k_rows, i, kZeros);
  std::fill_n(v_rows, i, kZeros);
  while (i < count) {  // one page, or all
    std::int64_t offset = 0, slot = at + i;
    int stop = count;
    if (table != nullptr) {
      offset = table[slot / page] * page_stride;
      slot %= page;
      stop = static_cast<int>(std::min<std::int64_t>(count, i + page - slot));
    }
    const char* k_row = k + offset + slot * k_stride;
    const char* v_row = v + offset + slot * v_stride;
    for (; i < stop; ++i, k_row += k_stride, v_row += v_stride) {
      k_rows[i] = k_row;
      v_rows[i] = v_row;
    }
  }
  return count;
}

void pack_block(const Tiles& tiles, const Keys& keys, std::int64_t block, std::int64_t d, const PackedBlock& out) {
  const void* k_rows[kBlock];
  const void* v_rows[kBlock];
  const int count = keys.rows(block, k_rows, v_rows);
  tiles.pack_transposed(k_rows, count, d, out.kt);
  tiles.pack_rows(v_rows, count, d, row_width(d), out.v);
}

/// As pack_block for a block used once: values that lie as the tiles want them (`plain`) stay where they are.
PackedBlock pack_once(const Tiles& tiles, const Keys& keys, std::int64_t block, std::int64_t d, bool plain,
                      PackedBlock out) {
  if (!plain || keys.begin > block * kBlock || (keys.table != nullptr && keys.page % kBlock != 0)) {
    pack_block(tiles, keys, block, d, out);
    return out;
  }
  const void* k_rows[kBlock];
  const void* v_rows[kBlock];
  tiles.pack_transposed(k_rows, keys.rows(block, k_rows, v_rows), d, out.kt);
  out.v = const_cast<float*>(static_cast<const float*>(v_rows[0]));
  out.v_stride = keys.v_stride / static_cast<std::int64_t>(sizeof(float));
  return out;
}

Range TileRows::blocks() const {
  Range r{INT64_MAX, 0};
  for (int i = 0; i < count; ++i) {
    r.begin = std::min(r.begin, keys[i].begin / kBlock);
    r.end = std::max(r.end, (keys[i].end + kBlock - 1) / kBlock);
  }
  return r;
}

std::int64_t tile_floats(const Tiles& tiles, std::int64_t d, std::int64_t first, std::int64_t last) {
  return PrefixStack::places(first, last) * States{nullptr, row_width(d)}.stride() + kBlock * tiles.words(d) +
         PackedSizes(tiles, d).both() + 64;
}

States run_tile(const Tiles& tiles, const TileRows& rows, const Keys& keys, std::int64_t d, float scale,
                std::int64_t first, std::int64_t last, const float* packed, std::int64_t packed_first, float* memory) {
  const PackedSizes sizes(tiles, d);
  const States states{memory, row_width(d)};
  float* own = memory + PrefixStack::places(first, last) * states.stride();
  float* q = own + sizes.both();
  tiles.pack_left(rows.q, rows.count, d, q);
  PrefixStack stack(rows.keys, rows.count, first, kBlock);
  const auto merge = [&](int left, int right, const Side* sides) {
    tiles.merge(rows.count, states.width, sides, states.m(left), states.l(left), states.o(left), states.m(right),
                states.l(right), states.o(right));
  };
  for (std::int64_t b = first; b < last; ++b) {
    PackedBlock block = sizes.at(own);
    if (packed != nullptr) {
      block = sizes.at(const_cast<float*>(packed) + (b - packed_first) * sizes.both());
    } else {
      block = pack_once(tiles, keys, b, d, tiles.plain && d == states.width, block);
    }
    Slots seen[kBlock];
    for (int r = 0; r < rows.count; ++r) {
      seen[r] = slots_of(rows.keys[r], b);
    }
    const int at = stack.place();
    tiles.forward({q, block.kt, block.v, block.v_stride, rows.count, static_cast<int>(d),
                   static_cast<int>(states.width), seen, scale, states.m(at), states.l(at), states.o(at)});
    stack.push(b, merge);
  }
  stack.finish(merge);
  return states;
}

}  // namespace isotone::cpu::attention
