// Causal attention over a cache of pages: the serving form of attention, with its bits.
#include <cmath>
#include "ops/functions.h"

#include "ops/support/attention.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct PagedAttentionOp : NoGradient<PagedAttentionOp>, NeverCut {
  static constexpr std::string_view name = "paged_attention";
  static Types infer(const InTypes& in, const Attrs& a) {
    require(in.size() == 5, "paged_attention: takes q, k pages, v pages, the page table and positions, got {} inputs",
            in.size());
    require(
        in[0].rank() == 4 && in[1].rank() == 4,
        "paged_attention: q must be [batch, token, head, width] and pages [page, kv_head, slot, width], got {} and {}",
        ir::to_string(in[0]), ir::to_string(in[1]));
    require_float(name, in[0]);
    require_same_dtype(name, in, 0, 2);
    const Shape &q = in[0].shape, &k = in[1].shape;
    require(in[2] == in[1] && k[3] == q[3] && k[1] > 0 && q[2] % k[1] == 0,
            "paged_attention: pages {} and {} do not fit q {}", ir::to_string(in[1]), ir::to_string(in[2]),
            ir::to_string(in[0]));
    require(k[2] > 0 && (k[2] % 64 == 0 || 64 % k[2] == 0),
            "paged_attention: a page of {} slots is neither a multiple nor a divisor of 64", k[2]);
    require(in[3].dtype == DType::i32 && in[3].rank() == 2 && in[3].shape[0] == q[0] &&
                in[4] == (Type{DType::i32, {q[0], q[1]}}),
            "paged_attention: table {} and positions {} must be i32[{}, pages] and i32[{}, {}]", ir::to_string(in[3]),
            ir::to_string(in[4]), q[0], q[0], q[1]);
    require(a.integer("window") >= 0, "paged_attention: window {} is negative", a.integer("window"));
    return {in[0]};
  }
  static void reference(const ReferenceCall& c) { paged_attention_reference(paged_of(c)); }
  static std::vector<Sample> samples() {
    std::vector<Sample> out;
    // Pages may be named twice and positions stand in any order: only the serving code has reasons for more.
    const auto add = [&](DType t, Shape q, Shape pages, std::int64_t width, std::int64_t window) {
      const double end = static_cast<double>(width * pages[2]);
      out.push_back({{{{t, q}},
                      {{t, pages}},
                      {{t, pages}},
                      {{DType::i32, {q[0], width}}, 0.0, static_cast<double>(pages[0])},
                      {{DType::i32, {q[0], q[1]}}, -2.0, end}},
                     {{"scale", 0.25}, {"window", window}},
                     false});
    };
    for (const DType t : {DType::f32, DType::bf16}) {
      add(t, {2, 3, 4, 32}, {6, 2, 16, 32}, 13, 0);
      add(t, {1, 5, 2, 8}, {3, 2, 128, 8}, 2, 20);
      add(t, {3, 1, 3, 64}, {4, 1, 64, 64}, 4, 0);
    }
    return out;
  }
};

}  // namespace

/// Attention of q [batch, token, head, width] over pages [page, kv_head, slot, width]: key j of a request lies in page
/// table[request, j / slots] (i32 [batch, pages]) at slot j mod slots. positions i32 [batch, token]: a query sees keys
/// 0 to its own; a negative position is padding, which gives +0. Same bits as attention().
/// @api Value paged_attention(const Value& q, const Value& k_pages, const Value& v_pages, const Value& table, const
/// Value& positions, double scale, std::int64_t window = 0);
Value paged_attention(const Value& q, const Value& k_pages, const Value& v_pages, const Value& table,
                      const Value& positions, double scale, std::int64_t window) {
  return apply1("paged_attention", {q, k_pages, v_pages, table, positions}, {{"scale", scale}, {"window", window}});
}

ISOTONE_OP(paged_attention, PagedAttentionOp);

}  // namespace isotone::ops
