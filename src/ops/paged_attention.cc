// Causal attention over a cache of pages: the serving form of attention, with its bits.
#include "ops/functions.h"
#include <cmath>

#include "ops/support/attention.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct PagedAttentionOp : NoGradient<PagedAttentionOp> {
  static constexpr std::string_view name = "paged_attention";
  static Types infer(const InTypes& in, const Attrs& a) {
    require(in.size() == 5 && in[0].rank() == 4 && in[1].rank() == 4, "paged_attention: takes q, k pages, v pages, the page table and positions");
    require_same_dtype(name, in, 0, 2);
    const Shape &q = in[0].shape, &k = in[1].shape;
    require(in[2] == in[1] && k[3] == q[3] && k[1] > 0 && q[2] % k[1] == 0, "paged_attention: pages {} and {} do not fit q {}", ir::to_string(in[1]),
            ir::to_string(in[2]), ir::to_string(in[0]));
    require(k[2] > 0 && (k[2] % 64 == 0 || 64 % k[2] == 0), "paged_attention: a page of {} slots is neither a multiple nor a divisor of 64", k[2]);
    require(in[3].dtype == DType::i32 && in[3].rank() == 2 && in[3].shape[0] == q[0] && in[4] == (Type{DType::i32, {q[0], q[1]}}),
            "paged_attention: table {} and positions {} must be i32[{}, pages] and i32[{}, {}]", ir::to_string(in[3]), ir::to_string(in[4]), q[0], q[0], q[1]);
    require(a.integer("window") >= 0, "paged_attention: window {} is negative", a.integer("window"));
    return {in[0]};
  }
  static void reference(const ReferenceCall& c) { paged_attention_reference(paged_of(c)); }
  static std::vector<Sample> samples() { return {}; }  // a table of pages is no random input: tested in tests/bits
};

}  // namespace

/// Attention of q [batch, token, head, width] over pages [page, kv_head, slot, width]: key j of a request lies in page
/// table[request, j / slots] (i32 [batch, pages]) at slot j mod slots. positions i32 [batch, token]: a query sees keys 0 to
/// its own; a negative position is padding, which gives +0. Same bits as attention().
/// @api Value paged_attention(const Value& q, const Value& k_pages, const Value& v_pages, const Value& table, const Value& positions, double scale, std::int64_t window = 0);
Value paged_attention(const Value& q, const Value& k_pages, const Value& v_pages, const Value& table, const Value& positions, double scale, std::int64_t window) {
  return apply1("paged_attention", {q, k_pages, v_pages, table, positions}, {{"scale", scale}, {"window", window}});
}

ISOTONE_OP(paged_attention, PagedAttentionOp);

}  // namespace isotone::ops
