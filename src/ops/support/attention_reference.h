// What a call of attention is, and attention by definition: the scalar order of docs/numerics.md, sections 5 and 12,
// that every kernel is compared with.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace isotone::ops {

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
void paged_attention_reference(const PagedAttention& a);

}  // namespace isotone::ops
