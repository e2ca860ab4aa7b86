// The bf16 contraction of the profile amx-1 on tile units (AMX): 32 x 32 outputs at a time in four tiles, or up to 16 x
// 64 where there are few rows. The rest of the table is avx512's. Flags in folder.cmake.
#if defined(__x86_64__)
#include "backends/cpu/kernels/contract_vec_avx512.h"
// The vector type comes first.
#include "backends/cpu/kernels/contract_tile.h"

namespace isotone::cpu {
namespace {

using V = VecAvx512<false>;

constexpr std::int64_t kBlockBytes = 16 * kPanel * 4;  // of a panel of B: 16 pairs
constexpr std::int64_t kPairBytes = kPanel * 4;
constexpr int kNodeFloats = 1024;  // outputs of four tiles

/// LDTILECFG's operand.
struct alignas(64) TileConfig {
  std::uint8_t palette;
  std::uint8_t start_row;
  std::uint8_t reserved[14];
  std::uint16_t row_bytes[16];
  std::uint8_t rows[16];
};

int& configured_rows() {
  static thread_local int rows = 0;
  return rows;
}

/// Sets this thread's tiles up for `rows` rows of A: up to 16, tiles 0-3 are C, 4 is A, 5-7 are B; else 0, 1 and 2, 3
/// are C, 4 and 5 are A (the first 16 rows, the rest), 6 and 7 are B.
void configure(int rows) {
  if (configured_rows() == rows) {
    return;
  }
  TileConfig config;
  __builtin_memset(&config, 0, sizeof config);
  config.palette = 1;
  const bool few = rows <= 16;
  const int first = few ? rows : 16;
  const int rest = rows - 16;
  const int heights[8] = {first, first, few ? first : rest, few ? first : rest, first, few ? 16 : rest, 16, 16};
  for (int i = 0; i < 8; ++i) {
    config.rows[i] = static_cast<std::uint8_t>(heights[i]);
    config.row_bytes[i] = 64;
  }
  __asm__ volatile("ldtilecfg %0" ::"m"(config) : "memory");  // g++ 12's intrinsic loses the stores before it
  configured_rows() = rows;
}

void release() {
  __asm__ volatile("tilerelease");
  configured_rows() = 0;
}

/// Rows of A in memory: tile (block, first row) at data + block * block_bytes + row * row_bytes.
struct Rows {
  const char* data;
  std::int64_t row_bytes;
  std::int64_t block_bytes;
};

inline void store_four(float* to, bool few) {
  if (few) {  // [16][64]
    _tile_stored(0, to, 256);
    _tile_stored(1, to + 16, 256);
    _tile_stored(2, to + 32, 256);
    _tile_stored(3, to + 48, 256);
  } else {  // [32][32]
    _tile_stored(0, to, 128);
    _tile_stored(1, to + 16, 128);
    _tile_stored(2, to + 512, 128);
    _tile_stored(3, to + 528, 128);
  }
}

inline void zero_four() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

/// Up to 16 rows, 64 columns: B is streamed.
inline void block_few(const char* a, std::int64_t a_row_bytes, const char* b) {
  _tile_loadd(4, a, a_row_bytes);
  _tile_loadd(5, b, kPairBytes);
  _tile_dpbf16ps(0, 4, 5);
  _tile_loadd(6, b + 64, kPairBytes);
  _tile_dpbf16ps(1, 4, 6);
  _tile_loadd(7, b + 128, kPairBytes);
  _tile_dpbf16ps(2, 4, 7);
  _tile_loadd(5, b + 192, kPairBytes);
  _tile_dpbf16ps(3, 4, 5);
}

/// 17 to 32 rows, 32 columns.
inline void block_many(const char* a, std::int64_t a_row_bytes, const char* b) {
  _tile_loadd(6, b, kPairBytes);
  _tile_loadd(4, a, a_row_bytes);
  _tile_loadd(7, b + 64, kPairBytes);
  _tile_dpbf16ps(0, 4, 6);
  _tile_loadd(5, a + 16 * a_row_bytes, a_row_bytes);
  _tile_dpbf16ps(1, 4, 7);
  _tile_dpbf16ps(2, 5, 6);
  _tile_dpbf16ps(3, 5, 7);
}

/// The last block of an axis, whose missing pairs are +0.
__attribute__((noinline)) void copy_tail(const char* b, std::int64_t pairs, char* to) {
  __builtin_memcpy(to, b, static_cast<std::size_t>(pairs * kPairBytes));
  __builtin_memset(to + pairs * kPairBytes, 0, static_cast<std::size_t>(kBlockBytes - pairs * kPairBytes));
  __asm__ volatile("" ::: "memory");
}

/// One leaf into the four tiles; `b` is at the leaf's first row of the panel, the columns begin at `column`.
template <bool kFew>
inline void run_leaf(const Rows& a, const char* b, std::int64_t column, std::int64_t length) {
  zero_four();
  b += column * 4;
  const char* ap = a.data;
  for (; length >= 32; length -= 32) {
    if constexpr (kFew) {
      prefetch_weights<kBlockBytes>(b);
      block_few(ap, a.row_bytes, b);
    } else {
      block_many(ap, a.row_bytes, b);
    }
    ap += a.block_bytes;
    b += kBlockBytes;
  }
  if (length > 0) {
    alignas(64) char tail[kBlockBytes];
    copy_tail(b - column * 4, (length + 1) / 2, tail);
    if constexpr (kFew) {
      block_few(ap, a.row_bytes, tail);
    } else {
      block_many(ap, a.row_bytes, tail + column * 4);
    }
  }
}

/// A finished node's row of kColumns outputs, rounded into C.
template <int kColumns>
inline void write_outputs(const TileArgs& t, const V::F* x, std::int64_t row, std::int64_t column) {
  const std::int64_t count = t.columns - column < kColumns ? t.columns - column : kColumns;
  const std::int64_t at = row * t.c_row_stride + column * t.c_column_stride;
  char* c = static_cast<char*>(t.c);
  if (count == kColumns && t.c_column_stride == 1 && t.c_format != CFormat::f16) {
#pragma GCC unroll 4
    for (int v = 0; v < kColumns / 16; v += 2) {
      const V::F low = V::canonical(x[v]);
      const V::F high = V::canonical(x[v + 1]);
      if (t.c_format == CFormat::bf16) {
        const __m512bh rounded = _mm512_cvtne2ps_pbh(high, low);
        _mm512_storeu_si512(c + (at + v * 16) * 2, reinterpret_cast<__m512i>(rounded));
      } else {
        V::store(reinterpret_cast<float*>(c + (at + v * 16) * 4), low);
        V::store(reinterpret_cast<float*>(c + (at + v * 16 + 16) * 4), high);
      }
    }
    return;
  }
  alignas(64) float values[kColumns];
  for (int v = 0; v < kColumns / 16; ++v) {
    V::store(values + v * 16, x[v]);
  }
  switch (t.c_format) {
    case CFormat::f32:
      write_row<V, CFormat::f32>(values, c + at * 4, t.c_column_stride, count);
      break;
    case CFormat::bf16:
      write_row<V, CFormat::bf16>(values, c + at * 2, t.c_column_stride, count);
      break;
    case CFormat::f16:
      write_row<V, CFormat::f16>(values, c + at * 2, t.c_column_stride, count);
      break;
  }
}

/// Joins the leaf in `leaf` with `merges` nodes below `top`, outputs [rows][kColumns]; the node goes into `to`, or into
/// C where that is null. A leaf is normalised (+0 added) here: so is the node on top of the stack where it is one.
template <int kColumns>
inline void join(const TileArgs& t, const float* leaf, const float (*top)[kNodeFloats], std::int64_t merges,
                 bool left_is_leaf, float* to, std::int64_t column) {
  constexpr int kVectors = kColumns / 16;
  const V::F zero = V::zero();
  for (std::int64_t row = 0; row < t.rows; ++row) {
    V::F x[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const std::int64_t at = row * kColumns + v * 16;
      x[v] = V::add(V::load(leaf + at), zero);
      if (merges > 0) {
        V::F left = V::load(top[-1] + at);
        left = left_is_leaf ? V::add(left, zero) : left;
        x[v] = V::add(left, x[v]);
        for (std::int64_t i = 2; i <= merges; ++i) {
          x[v] = V::add(V::load(top[-i] + at), x[v]);
        }
      }
    }
    if (to != nullptr) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        V::store(to + row * kColumns + v * 16, x[v]);
      }
    } else {
      write_outputs<kColumns>(t, x, row, column);
    }
  }
}

template <bool kFew>
void run_columns(const TileArgs& t, std::int64_t column, float (*stack)[kNodeFloats]) {
  constexpr int kColumns = kFew ? 64 : 32;
  alignas(64) float leaf[kNodeFloats];
  std::int64_t top = 0;
  for (std::int64_t s = 0; s < t.step_count; ++s) {
    const LeafStep& step = t.steps[s];
    const bool direct = t.a_row_bytes != 0;
    Rows a{static_cast<const char*>(t.a) + step.outer * t.a_outer_bytes, direct ? t.a_row_bytes : 64,
           direct ? 64 : t.rows * 64};
    a.data += step.begin / 32 * a.block_bytes;
    const char* b = static_cast<const char*>(t.b) + step.outer * t.b_outer_bytes + step.begin / 32 * kBlockBytes;
    run_leaf<kFew>(a, b, column, step.length);
    const bool last = s + 1 == t.step_count;
    if (step.merges == 0 && !last) {
      store_four(stack[top++], kFew);  // normalised when it is joined
      continue;
    }
    store_four(leaf, kFew);
    // A left part is never shallower than its right one, so the top node is a leaf exactly after a leaf without merges.
    join<kColumns>(t, leaf, stack + top, step.merges, s > 0 && t.steps[s - 1].merges == 0,
                   last ? nullptr : stack[top - step.merges], column);
    top -= step.merges - 1;
  }
}

void run_tiles(const TileArgs& t) {
  alignas(64) float stack[kMaxTreeDepth][kNodeFloats];
  configure(static_cast<int>(t.rows));
  if (t.rows <= 16) {
    run_columns<true>(t, 0, stack);
    return;
  }
  for (std::int64_t column = 0; column < t.columns; column += 32) {
    run_columns<false>(t, column, stack);
  }
}

/// PackFormat::tiles.
void pack_tiles(const char* source, std::int64_t row_stride, std::int64_t k_stride, std::int64_t rows,
                std::int64_t width, std::int64_t k, char* target) {
  const auto* halves = reinterpret_cast<const std::uint16_t*>(source);
  for (std::int64_t k0 = 0; k0 < k; k0 += 32, target += width * 64) {
    const std::int64_t count = k - k0 < 32 ? k - k0 : 32;
    if (k_stride == 1) {
      const __mmask32 mask = static_cast<__mmask32>((std::uint64_t{1} << count) - 1);
      for (std::int64_t r = 0; r < width; ++r) {
        const __m512i x =
            r < rows ? _mm512_maskz_loadu_epi16(mask, halves + r * row_stride + k0) : _mm512_setzero_si512();
        _mm512_storeu_si512(target + r * 64, x);
      }
      continue;
    }
    for (std::int64_t r0 = 0; r0 < width; r0 += 16) {
      const std::int64_t lanes = width - r0 < 16 ? width - r0 : 16;
      const std::int64_t valid = rows - r0 < 0 ? 0 : rows - r0 < lanes ? rows - r0 : lanes;
      const std::uint16_t* from = halves + r0 * row_stride + k0 * k_stride;
      V::I x[16];
      if (row_stride == 1) {
#pragma GCC unroll 16
        for (int p = 0; p < 16; ++p) {
          const V::I even = V::load_u16_part(from + 2 * p * k_stride, 2 * p < count ? valid : 0);
          const V::I odd = V::load_u16_part(from + (2 * p + 1) * k_stride, 2 * p + 1 < count ? valid : 0);
          x[p] = V::bit_or(even, V::shift_up(odd));
        }
        V::transpose(x);
      } else {
        alignas(64) std::uint16_t words[16][32] = {};
        for (std::int64_t r = 0; r < valid; ++r) {
          for (std::int64_t i = 0; i < count; ++i) {
            words[r][i] = from[r * row_stride + i * k_stride];
          }
        }
        for (int r = 0; r < 16; ++r) {
          x[r] = _mm512_load_si512(words[r]);
        }
      }
      for (std::int64_t r = 0; r < lanes; ++r) {
        _mm512_storeu_si512(target + (r0 + r) * 64, x[r]);
      }
    }
  }
}

void pack(PackFormat format, const void* source, std::int64_t row_stride, std::int64_t k_stride, std::int64_t rows,
          std::int64_t width, std::int64_t k, void* target) {
  if (format == PackFormat::tiles) {
    pack_tiles(static_cast<const char*>(source), row_stride, k_stride, rows, width, k, static_cast<char*>(target));
  } else {
    kernels_avx512().pack(format, source, row_stride, k_stride, rows, width, k, target);
  }
}

constexpr int kMaxRows = 32;

struct TileFunctions {
  TileFunction functions[kMaxRows];
};

constexpr TileFunctions same_for_all_heights() {
  TileFunctions all{};
  for (TileFunction& f : all.functions) {
    f = &run_tiles;
  }
  return all;
}

constexpr TileFunctions kTiles = same_for_all_heights();

KernelTable make_amx_table() {
  KernelTable t = kernels_avx512();
  t.max_rows_blocks = kMaxRows;
  t.a_blocks = PackFormat::tiles;
  t.bf16_blocks = kTiles.functions;
  t.finish = &release;
  t.pack = &pack;
  return t;
}

}  // namespace

const KernelTable& kernels_amx() {
  static const KernelTable table = make_amx_table();
  return table;
}

}  // namespace isotone::cpu
#endif
