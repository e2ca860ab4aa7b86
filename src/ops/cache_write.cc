// Writes keys or values of new tokens into a paged cache.
#include "ops/functions.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct CacheWrite : NoGradient<CacheWrite>, NeverCut {
  static constexpr std::string_view name = "cache_write";
  static Types infer(const InTypes& in, const Attrs&) {
    require(in.size() == 4, "cache_write: takes pages, new rows, the page table and positions, got {} inputs",
            in.size());
    require(in[0].rank() == 4 && in[1].rank() == 4,
            "cache_write: pages must be [page, kv_head, slot, width] and rows [batch, token, kv_head, width], got {} "
            "and {}",
            ir::to_string(in[0]), ir::to_string(in[1]));
    require_same_dtype(name, in, 0, 1);
    const Shape &p = in[0].shape, &x = in[1].shape;
    require(x[2] == p[1] && x[3] == p[3], "cache_write: rows {} do not fit pages {}", ir::to_string(in[1]),
            ir::to_string(in[0]));
    require(in[2].dtype == DType::i32 && in[2].rank() == 2 && in[2].shape[0] == x[0] &&
                in[3] == (Type{DType::i32, {x[0], x[1]}}),
            "cache_write: table {} and positions {} must be i32[{}, pages] and i32[{}, {}]", ir::to_string(in[2]),
            ir::to_string(in[3]), x[0], x[0], x[1]);
    return {in[0]};
  }
  static void reference(const ReferenceCall& c) {
    const Shape &p = c.inputs[0].type->shape, &x = c.inputs[1].type->shape;
    std::memcpy(c.outputs[0].data, c.inputs[0].data, c.inputs[0].type->bytes());
    const std::size_t row = static_cast<std::size_t>(x[3]) * unit_bytes(c.inputs[1].type->dtype);
    const std::int64_t max_pages = c.inputs[2].type->shape[1];
    for (std::int64_t i = 0; i < x[0] * x[1]; ++i) {
      const std::int64_t position = c.inputs[3].get_int(i);
      if (position < 0) {
        continue;
      }
      require(position / p[2] < max_pages, "cache_write: position {} is past the {} pages of the table", position,
              max_pages);
      const std::int64_t page = c.inputs[2].get_int(i / x[1] * max_pages + position / p[2]);
      require(page >= 0 && page < p[0], "cache_write: page {} is outside a cache of {}", page, p[0]);
      for (std::int64_t h = 0; h < x[2]; ++h) {
        std::memcpy(static_cast<std::byte*>(c.outputs[0].data) +
                        static_cast<std::size_t>((page * p[1] + h) * p[2] + position % p[2]) * row,
                    static_cast<const std::byte*>(c.inputs[1].data) + static_cast<std::size_t>(i * x[2] + h) * row,
                    row);
      }
    }
  }
  static std::vector<Sample> samples() {
    return {{{{{DType::f32, {4, 2, 8, 16}}},
              {{DType::f32, {1, 1, 2, 16}}},
              {{DType::i32, {1, 3}}, 0, 4},
              {{DType::i32, {1, 1}}, -1, 24}},
             {},
             false},
            {{{{DType::bf16, {4, 2, 8, 16}}},
              {{DType::bf16, {1, 1, 2, 16}}},
              {{DType::i32, {1, 3}}, 0, 4},
              {{DType::i32, {1, 1}}, -1, 24}},
             {},
             false}};
  }
};

}  // namespace

/// The pages [page, kv_head, slot, width] with the rows of x [batch, token, kv_head, width] written at their positions
/// (i32 [batch, token]; negative: not written) through the table (i32 [batch, pages]). Donated pages are written in
/// place.
/// @api Value cache_write(const Value& pages, const Value& x, const Value& table, const Value& positions);
Value cache_write(const Value& pages, const Value& x, const Value& table, const Value& positions) {
  return apply1("cache_write", {pages, x, table, positions});
}

ISOTONE_OP(cache_write, CacheWrite);

}  // namespace isotone::ops
