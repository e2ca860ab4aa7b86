// Validation of attention calls.
#include "ops/support/attention_check.h"

#include "base/error.h"
#include "base/tree.h"

namespace isotone::ops::attention_rules {
namespace {

void check_heads(const char* what, std::int64_t heads, std::int64_t kv_heads, std::int64_t d, DType dtype,
                 std::int64_t window) {
  require(dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16,
          "{}: dtype {} was given; it takes f32, bf16 or f16", what, dtype_name(dtype));
  require(heads >= 1 && kv_heads >= 1 && heads % kv_heads == 0,
          "{}: {} query heads and {} key heads; the first must be a multiple of the second", what, heads, kv_heads);
  require(d >= 1 && d <= kMaxHeadWidth, "{}: a head width of {}; it must be from 1 to {}", what, d, kMaxHeadWidth);
  require(window >= 0, "{}: a window of {}; it must be 0 (none) or the number of visible keys", what, window);
}

}  // namespace

void check_pointers(const char* what, std::initializer_list<const void*> pointers) {
  for (const void* p : pointers) {
    require(p != nullptr, "{}: a tensor without data was given", what);
  }
}

std::vector<Document> check_shape(const char* what, const AttentionShape& s) {
  check_heads(what, s.heads, s.kv_heads, s.d, s.dtype, s.window);
  require(s.g >= 0 && s.t >= 0 && s.t < (std::int64_t{1} << 31), "{}: {} sequences of {} tokens make no sense", what,
          s.g, s.t);
  std::vector<Document> documents;
  for (std::int64_t g = 0; s.t > 0 && g < s.g; ++g) {
    documents.push_back({g, 0, s.t});
    for (std::int64_t i = 0; s.doc_start != nullptr && i < s.t; ++i) {
      const std::int64_t start = s.doc_start[g * s.t + i];
      Document& last = documents.back();
      if (start == i && i > 0) {
        last.length = i - last.begin;
        documents.push_back({g, i, s.t - i});
      } else {
        require(start == last.begin,
                "{}: doc_start[{}, {}] is {}; it must be {} (the document goes on) or {} (a new one starts)", what, g,
                i, start, last.begin, i);
      }
    }
  }
  return documents;
}

void check_paged(const PagedAttention& a, Range part) {
  const char* what = "paged_attention";
  check_heads(what, a.heads, a.kv_heads, a.d, a.dtype, a.window);
  require(a.b >= 0 && a.t >= 0, "{}: {} requests of {} tokens make no sense", what, a.b, a.t);
  require(a.page >= 1 && (a.page % kAttentionBlock == 0 || kAttentionBlock % a.page == 0),
          "{}: pages of {} slots; a page must be a multiple of {} or divide it", what, a.page, kAttentionBlock);
  if (a.b == 0 || a.t == 0) {
    return;
  }
  check_pointers(what, {a.q.data, a.k_pages, a.v_pages, a.table, a.positions});
  for (std::int64_t r = 0; r < a.b; ++r) {
    std::int64_t last = -1, first = INT64_MAX;
    for (std::int64_t i = 0; i < a.t; ++i) {
      const std::int64_t p = a.positions[r * a.t + i];
      if (p >= 0) {
        last = std::max(last, p);
        first = std::min(first, visible_keys(true, a.window, 0, p).begin);
      }
    }
    require(last < a.table_stride * a.page,
            "{}: request {} has a query at position {}, but its table holds {} pages of {}", what, r, last,
            a.table_stride, a.page);
    first = std::max(first, part.begin);
    last = std::min(last, part.end - 1);
    for (std::int64_t p = first / a.page; first <= last && p <= last / a.page; ++p) {
      const std::int64_t page = a.table[r * a.table_stride + p];
      require(page >= 0 && page < a.pages,
              "{}: request {} names page {} for its positions from {}; the cache has {} pages", what, r, page,
              p * a.page, a.pages);
    }
  }
}

}  // namespace isotone::ops::attention_rules
