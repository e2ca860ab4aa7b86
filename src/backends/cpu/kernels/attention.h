// Attention in the order of docs/numerics.md, sections 5 and 12: forward over (packed) sequences, over a paged cache,
// and the gradient. All instruction sets, numbers of threads, ways to cut a prefill and page sizes give the same bits.
#pragma once

#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "ops/support/attention_reference.h"

namespace isotone::ops::attention_rules {}

namespace isotone::cpu {

namespace attention {
using namespace ops::attention_rules;  // NOLINT(google-build-using-namespace): what drivers and references share
}

using ops::attention_backward_reference;
using ops::attention_forward_reference;
using ops::AttentionBackward;
using ops::AttentionForward;
using ops::AttentionInput;
using ops::AttentionOutput;
using ops::AttentionShape;
using ops::paged_attention_reference;
using ops::PagedAttention;

/// Throws Error for shapes, dtypes or document starts that make no sense.
void attention_forward(const AttentionForward& a);

void attention_backward(const AttentionBackward& a);

/// Throws Error for shapes, positions or page numbers out of range.
void paged_attention(const PagedAttention& a);

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
