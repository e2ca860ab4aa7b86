// What an instruction set gives to the attention drivers: a table of functions over packed blocks of 64 keys or
// queries. Packed operands are 32-bit words: f32 values, or two neighbouring bf16 where the set has the pair-dot.
#pragma once

#include <cstdint>

#include "backends/cpu/isa.h"
#include "base/dtype.h"
#include "base/tree.h"

namespace isotone::cpu::attention {

inline constexpr int kBlock = static_cast<int>(kAttentionBlock);

/// Slots [lo, hi) of a block, relative to its first.
struct Slots {
  int lo, hi;
};

/// One step of the forward pass: up to 64 query rows against one block of keys. Outputs are the block's own state.
struct ForwardBlock {
  const float* q;   // left operand [rows][words(d)]
  const float* kt;  // transposed [words(d)][64]
  const float* v;   // rows [words(64)][v_stride], of which `width` columns count
  std::int64_t v_stride;
  int rows;
  int d;
  int width;          // d rounded up to 16
  const Slots* seen;  // per row
  float scale;
  float* m;  // [64]
  float* l;  // [64]
  float* o;  // [64][width]
};

/// One step of the gradient: `rows` rows (queries for dq, keys for dk and dv) against a block of the other kind.
struct BackwardBlock {
  const float* left_s;   // [rows][words(d)]: q, or k
  const float* left_p;   // d_o, or v
  const float* right_s;  // [words(d)][64]: k transposed, or q
  const float* right_p;  // v transposed, or d_o
  const float* rows_s;   // [words(64)][width]: k, or q
  const float* rows_p;   // d_o (only for dk, dv)
  int rows;
  int d;
  int width;
  const Slots* seen;
  float scale;
  const float* lse;  // of the queries: per row, or per slot where `keys`
  const float* delta;
  float* out_s;  // [64][width]: dq, or dk
  float* out_p;  // dv
  void* ds;      // where to keep dS [64][64] in the dtype, a row per key (only for dk, dv), or null
};

/// Which side of a merge a row has: both, only the left one, only the right one.
enum class Side : std::uint8_t { both, left, right };

struct Tiles {
  const char* name;
  bool plain;  // rows of right operands are f32 as they lie in memory
  /// Words in a row of d elements of a left operand, and rows of a right operand along d.
  std::int64_t (*words)(std::int64_t d);
  void (*pack_left)(const void* const* rows, int count, std::int64_t d, float* out);
  /// Slots from `count` to 64 become +0.
  void (*pack_transposed)(const void* const* rows, int count, std::int64_t d, float* out);
  void (*pack_rows)(const void* const* rows, int count, std::int64_t d, std::int64_t width, float* out);
  void (*forward)(const ForwardBlock& b);
  void (*backward_dq)(const BackwardBlock& b);
  void (*backward_dkv)(const BackwardBlock& b);
  /// dq's part of one block of keys from a kept dS, packed by pack_rows: out[rows][width].
  void (*product)(const float* ds, const float* keys, int rows, std::int64_t width, const Slots* seen, float* out);
  /// Joins states (left, in place) or sums; `sides` [64] may be null: both everywhere.
  void (*merge)(int rows, std::int64_t width, const Side* sides, float* m1, float* l1, float* o1, const float* m2,
                const float* l2, const float* o2);
  void (*add)(int rows, std::int64_t width, const Side* sides, float* o1, const float* o2);
  /// out[d] in the dtype = o / l, or o where `l` is null; the +0 row where `o` is null.
  void (*store)(const float* o, const float* l, std::int64_t d, void* out);
  /// lse = m + log(l), canonical.
  void (*lse)(int rows, const float* m, const float* l, float* out);
  float (*delta)(const void* d_o, const void* o, std::int64_t d);
};

/// Tables by dtype: f32, bf16, f16.
const Tiles* tiles_scalar();
const Tiles* tiles_avx2();
const Tiles* tiles_avx512();
const Tiles* tiles_avx512_bf16();
const Tiles* tiles_neon();

/// The table for `dtype` of the instruction set in use; logs the kernel as `op`.<dtype>.<set>.
const Tiles& tiles_for(DType dtype, const char* op);

}  // namespace isotone::cpu::attention
