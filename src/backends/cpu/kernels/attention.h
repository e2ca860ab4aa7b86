// Attention in the order of docs/numerics.md, sections 5 and 12: forward over (packed) sequences, over a paged cache,
// and the gradient. All instruction sets, numbers of threads, ways to cut a prefill and page sizes give the same bits.
#pragma once

#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace isotone::cpu {

/// A tensor [g, t, heads, D]: element (g, t, h, d) lies at data[g*g_stride + t*t_stride + h*h_stride + d]; strides are
/// in elements and may be anything.
struct AttentionInput {
  const void* data = nullptr;
  std::int64_t g_stride = 0;
  std::int64_t t_stride = 0;
  std::int64_t h_stride = 0;
};
struct AttentionOutput {
  void* data = nullptr;
  std::int64_t g_stride = 0;
  std::int64_t t_stride = 0;
  std::int64_t h_stride = 0;
};

/// What forward and gradient share. A key j is visible to a query i of the same document when (not causal or j <= i)
/// and (window == 0 or i - j < window).
struct AttentionShape {
  std::int64_t g = 1;         // sequences
  std::int64_t t = 0;         // tokens of each, queries and keys alike
  std::int64_t heads = 1;     // query heads; a multiple of kv_heads
  std::int64_t kv_heads = 1;  // query head h reads key head h / (heads / kv_heads)
  std::int64_t d = 0;         // head width, 1 to 256
  DType dtype = DType::f32;   // of q, k, v, o and their gradients: f32, bf16 or f16 (f16: forward only)
  float scale = 1.0F;
  bool causal = true;
  std::int64_t window = 0;
  /// i32 [g, t], contiguous: where in its sequence the document of each token starts. Null: one document a sequence.
  const std::int32_t* doc_start = nullptr;
};

/// o [g, t, heads, D] and, unless null, lse f32 [g, t, heads] (contiguous).
struct AttentionForward {
  AttentionShape shape;
  AttentionInput q, k, v;
  AttentionOutput o;
  float* lse = nullptr;
};
/// Throws Error for shapes, dtypes or document starts that make no sense.
void attention_forward(const AttentionForward& a);
void attention_forward_reference(const AttentionForward& a);

/// dq, dk, dv from the forward's inputs, its o and lse, and the gradient of o. Each is rounded once to the dtype.
struct AttentionBackward {
  AttentionShape shape;
  AttentionInput q, k, v, o, d_o;
  const float* lse = nullptr;
  AttentionOutput dq, dk, dv;
  /// Memory that the call may use to keep score gradients of a document's head between its two passes; where they would
  /// be larger they are computed twice. Does not show in the result.
  std::int64_t keep_bytes = std::int64_t{64} << 20;
};
void attention_backward(const AttentionBackward& a);
void attention_backward_reference(const AttentionBackward& a);

/// Causal attention of the queries [b, t, heads, D] over a paged cache. Key j of request r lies in page
/// table[r*table_stride + j / page], slot j % page; a page is [kv_heads, page, D] (strides in elements). A query at
/// position p sees keys 0 to p (of them the last `window`, unless 0); a negative position is padding: o = +0, lse =
/// -inf. Pages must hold every visible key already; what lies behind is not looked at.
struct PagedAttention {
  std::int64_t b = 1;
  std::int64_t t = 1;
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t d = 0;
  DType dtype = DType::f32;
  float scale = 1.0F;
  std::int64_t window = 0;
  AttentionInput q;  // g_stride is the batch's
  const void* k_pages = nullptr;
  const void* v_pages = nullptr;
  std::int64_t pages = 0;  // in the cache
  std::int64_t page = 64;  // slots of a page: a multiple of 64 or a divisor of it
  std::int64_t page_stride = 0;
  std::int64_t page_head_stride = 0;
  std::int64_t page_slot_stride = 0;
  const std::int32_t* table = nullptr;
  std::int64_t table_stride = 0;            // = max_pages of a request
  const std::int32_t* positions = nullptr;  // [b, t], contiguous
  AttentionOutput o;
  float* lse = nullptr;  // [b, t, heads] or null
};
/// Throws Error for shapes, positions or page numbers out of range.
void paged_attention(const PagedAttention& a);
void paged_attention_reference(const PagedAttention& a);

/// Unfinished states of query rows, for a context split over workers: m, l [rows], o [rows, D], all f32, contiguous,
/// with rows = b*t*heads in the order of lse. A state that has seen no key is (-inf, 0, 0).
struct AttentionState {
  float* m = nullptr;
  float* l = nullptr;
  float* o = nullptr;
};
/// The states of node `index` of the tree over blocks of 64 keys, at height `level`: blocks [index << level,
/// (index+1) << level), as far as they exist. Only pages of those blocks are read.
void paged_attention_node(const PagedAttention& a, int level, std::int64_t index, const AttentionState& out);
/// left = left joined with right, its neighbour in the tree.
void merge_attention_states(std::int64_t rows, std::int64_t d, const AttentionState& left, const AttentionState& right);
/// o = round(state.o / state.l), lse = m + log(l), for the queries of `a`.
void finish_attention(const PagedAttention& a, const AttentionState& state);

}  // namespace isotone::cpu
