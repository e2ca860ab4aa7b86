// What the attention drivers and references share: validation, documents, and reading elements.
#pragma once

#include <cstdint>
#include <vector>

#include "base/half.h"
#include "ops/support/attention_reference.h"

namespace isotone::ops::attention_rules {

inline constexpr std::int64_t kMaxHeadWidth = 256;

/// A document: tokens [begin, begin + length) of sequence g.
struct Document {
  std::int64_t g, begin, length;
};

/// Throws Error unless the shape makes sense; `what` names the op. The documents in order.
std::vector<Document> check_shape(const char* what, const AttentionShape& s);
void check_pointers(const char* what, std::initializer_list<const void*> pointers);
/// Visible range [begin, end) of positions in a document, for a query at `i` (keys) or a key at `j` (queries).
struct Range {
  std::int64_t begin, end;
};
/// Throws Error unless the call makes sense, positions and the page numbers of visible keys within
/// `part` included.
void check_paged(const PagedAttention& a, Range part);

inline Range visible_keys(bool causal, std::int64_t window, std::int64_t length, std::int64_t i) {
  return {window > 0 && i >= window ? i - window + 1 : 0, causal ? i + 1 : length};
}
inline Range visible_queries(bool causal, std::int64_t window, std::int64_t length, std::int64_t j) {
  return {causal ? j : 0, window > 0 && length - j > window ? j + window : length};
}

inline float read_element(const void* data, DType t, std::int64_t i) {
  switch (t) {
    case DType::bf16:
      return static_cast<float>(static_cast<const bf16*>(data)[i]);
    case DType::f16:
      return static_cast<float>(static_cast<const f16*>(data)[i]);
    default:
      return static_cast<const float*>(data)[i];
  }
}
/// Rounds once; every NaN becomes the one pattern.
inline void write_element(void* data, DType t, std::int64_t i, float x) {
  switch (t) {
    case DType::bf16:
      static_cast<bf16*>(data)[i] = bf16(x);
      break;
    case DType::f16:
      static_cast<f16*>(data)[i] = f16(x);
      break;
    default:
      static_cast<float*>(data)[i] = x == x ? x : std::bit_cast<float>(0x7fc00000U);
  }
}
inline float round_to(DType t, float x) {
  return t == DType::bf16 ? static_cast<float>(bf16(x)) : t == DType::f16 ? static_cast<float>(f16(x)) : x;
}

}  // namespace isotone::ops::attention_rules
