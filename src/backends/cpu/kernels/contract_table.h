// What each instruction set's file hands to the driver: a table of functions over raw memory. The files behind it are
// compiled with flags of their own, so they share no inline code with the rest of the library.
#pragma once

#include <cstdint>

namespace isotone::cpu {

inline constexpr std::int64_t kPanel = 64;         // outputs in a panel of packed weights
inline constexpr std::int64_t kMaxTreeDepth = 48;  // unmerged nodes on the stack of a tile

/// One leaf of the tree over (outer, k), in tree order: after it, `merges` results on the stack are added in front.
struct LeafStep {
  std::int64_t outer;
  std::int64_t begin;
  std::int64_t length;
  std::int64_t merges;
};

#if defined(__aarch64__)
using StoredHalf = __fp16;
#else
using StoredHalf = _Float16;
#endif

enum class CFormat : std::int32_t { f32, bf16, f16 };
enum class QFormat : std::int32_t { q8_0, q4_0, q4_1 };

/// One tile: `rows` rows of packed A times up to 64 columns of one panel of packed B.
struct TileArgs {
  const void* a;  // [outer][k][rows]: see PackFormat; quantised: see kernels' quantise
  std::int64_t a_outer_bytes;
  std::int64_t a_row_bytes;  // PackFormat::tiles alone: from row to row; 0 where A is packed
  const void* b;             // [outer][k][64]
  std::int64_t b_outer_bytes;
  const LeafStep* steps;
  std::int64_t step_count;
  std::int64_t rows;
  std::int64_t columns;  // valid columns, 1..64
  void* c;
  std::int64_t c_row_stride;  // elements
  std::int64_t c_column_stride;
  CFormat c_format;
};

/// Lanes over the batch: c[i] = tree over steps of a[i + o*a_outer + k*a_k] * b[i + ...], i in [0, count).
struct LaneArgs {
  const void* a;
  const void* b;
  std::int64_t a_outer, a_k, b_outer, b_k;  // elements
  const LeafStep* steps;
  std::int64_t step_count;
  std::int64_t count;
  void* c;
  CFormat c_format;
};

/// Packed forms, [k][width] each with rows that are absent as +0:
/// words: 32-bit elements. pairs: (k, k+1) of 16-bit elements in one 32-bit word, [ceil(k/2)][width].
/// swapped: bf16 widened to f32, odd before even in each pair, [2*ceil(k/2)][width]. halves: 16-bit. widened: f16 to
/// f32. tiles: 16-bit elements, [ceil(k/32)][width][32], rows of A as tile units load them; elements beyond k are +0.
enum class PackFormat : std::int32_t { words, pairs, swapped, halves, widened, tiles };

using TileFunction = void (*)(const TileArgs&);
using LaneFunction = void (*)(const LaneArgs&);

struct KernelTable {
  std::int64_t max_rows;  // of a tile
  std::int64_t max_rows_quant;
  PackFormat a_bf16;        // pairs or swapped
  const TileFunction* f32;  // [rows - 1]
  const TileFunction* bf16;
  const TileFunction* f16;
  const TileFunction* quant[3];  // by QFormat
  // bf16 under the profile amx-1.
  std::int64_t max_rows_blocks;
  PackFormat a_blocks;              // swapped or tiles
  const TileFunction* bf16_blocks;  // [rows - 1]
  LaneFunction lanes_blocks;
  void (*finish)();  // where not null, called by each thread after its last tile
  LaneFunction lanes_f32;
  LaneFunction lanes_bf16;
  LaneFunction lanes_f16;
  void (*pack)(PackFormat format, const void* source, std::int64_t row_stride, std::int64_t k_stride, std::int64_t rows,
               std::int64_t width, std::int64_t k, void* target);
  /// Quantises `rows` rows of f32 or bf16 by blocks of 32 into [block]{ i8 q[8][rows][4]; i32 sum[rows]; f32
  /// scale[rows] }.
  void (*quantise)(const void* source, bool is_bf16, std::int64_t row_stride, std::int64_t k_stride, std::int64_t rows,
                   std::int64_t blocks, void* target);
};

const KernelTable& kernels_scalar();
const KernelTable& kernels_avx2();
const KernelTable& kernels_avx512();
const KernelTable& kernels_avx512_bf16();
const KernelTable& kernels_neon();

/// avx512's, with tile units for bf16_blocks.
const KernelTable& kernels_amx();

}  // namespace isotone::cpu
