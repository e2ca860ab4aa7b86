// Rows of a table by id.
#include "ops/support/attributes.h"
#include "ops/support/index.h"
#include "ops/support/shard.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct Embedding {
  static constexpr std::string_view name = "embedding";
  static Types infer(const InTypes& in, const Attrs& a) {
    require(in.size() == 2, "embedding: takes a table and ids, got {} inputs", in.size());
    require(in[0].rank() == 2, "embedding: the table must be [rows, width], got {}", ir::to_string(in[0]));
    require(is_float(in[0].dtype) || is_quantised(in[0].dtype),
            "embedding: needs a table of floats or quantised blocks, got {}", ir::to_string(in[0]));
    require_index(name, in[1]);
    Shape out = in[1].shape;
    out.push_back(in[0].shape[1]);
    return {{float_dtype_attr(name, a), out}};
  }
  static Values vjp(const VjpCall& c) {
    const Shape& ids = c.inputs[1].shape();
    const std::int64_t width = c.inputs[0].dim(1), tokens = ids.empty() ? 1 : ids.back();
    // [grain, token]: all but the last axis of the ids count as grains.
    const Value flat_ids = reshape(c.inputs[1], {-1, tokens});
    const Value g = reshape(c.cotangents[0], {-1, tokens, width});
    return {embedding_grad(flat_ids, g, c.inputs[0].dim(0)), Value()};
  }
  static void reference(const ReferenceCall& c) {
    const std::int64_t rows = c.inputs[0].type->shape[0], width = c.inputs[0].type->shape[1];
    for (std::int64_t i = 0; i < c.inputs[1].elements(); ++i) {
      const std::int64_t row = checked_index(name, c.inputs[1].get_int(i), rows);
      for (std::int64_t j = 0; j < width; ++j) {
        c.outputs[0].set(i * width + j, c.inputs[0].get(row * width + j));
      }
    }
  }
  static ShardRule shard(const InTypes& in, const Types&, const Attrs&) {
    const std::string ids = letters_without(in[1].shape.size(), {});
    if (is_quantised(in[0].dtype)) {
      return {{"..", ids}, {ids + '.'}};
    }
    // A worker that has a part of the rows gives zeros for the ids of others.
    ShardRule rule{{"yz", ids}, {ids + 'z'}};
    rule.joined = "y";
    rule.join = Join::select;
    return rule;
  }
  static Values local(const LocalCall& c) {
    const std::int64_t rows = c.inputs[0].dim(0), all = c.total('y');
    const Span mine = c.part('y');
    const DType dtype = c.outputs[0].dtype;
    if (rows == all) {
      return {embedding(c.inputs[0], c.inputs[1], dtype)};
    }
    const Value zero = broadcast_to(full({}, 0.0, dtype), c.outputs[0].shape);
    if (rows == 0) {
      return {zero};
    }
    // Where each id's row is among this worker's; 0 for the rows of others, which are masked below.
    const auto none = [](std::int64_t n) { return full({n}, 0.0, DType::i32); };
    const Value where_is = concat({none(mine.begin), iota({rows}), none(all - mine.end)}, 0);
    const Value is_mine = concat({none(mine.begin), full({rows}, 1.0, DType::i32), none(all - mine.end)}, 0);
    const Value flat = reshape(c.inputs[1], {-1});
    const Value own = reshape(gather(where_is, flat, 0), c.inputs[1].shape());
    Shape column = c.inputs[1].shape();
    column.push_back(1);
    const Value hit = reshape(cast(gather(is_mine, flat, 0), DType::boolean), column);
    return {where(hit, embedding(c.inputs[0], own, dtype), zero)};
  }
  static std::vector<Sample> samples() {
    std::vector<Sample> out;
    for (const DType t : {DType::f32, DType::bf16, DType::f16, DType::q4_0, DType::q4_1, DType::q8_0}) {
      out.push_back(
          {{{{t, {11, 64}}}, {{DType::i32, {2, 5}}, 0, 11}}, {{"dtype", as_attr(DType::f32)}}, t == DType::f32});
    }
    out.push_back({{{{DType::f32, {11, 8}}}, {{DType::i64, {3}}, 0, 11}}, {{"dtype", as_attr(DType::bf16)}}, false});
    return out;
  }
};

}  // namespace

/// table[ids]: `table` [rows, width] of any float or quantised dtype, ids (i32 or i64) of any shape; [ids..., width] in
/// `dtype`. The table's gradient is f32, in the order of docs/numerics.md section 12.
/// @api Value embedding(const Value& table, const Value& ids, DType dtype);
Value embedding(const Value& table, const Value& ids, DType dtype) {
  return apply1("embedding", {table, ids}, {{"dtype", as_attr(dtype)}});
}

/// Slices of x along `axis` by a list of indices (i32 or i64) of any shape, which takes the place of the axis.
/// @api Value take(const Value& x, const Value& indices, std::int64_t axis = 0);
Value take(const Value& x, const Value& indices, std::int64_t axis) {
  const int a = ir::normal_axis(axis, x.rank(), "take");
  Ints front{a};
  Shape rest;
  for (int i = 0; i < x.rank(); ++i) {
    if (i != a) {
      front.push_back(i);
      rest.push_back(x.dim(i));
    }
  }
  const std::int64_t width = Type{x.dtype(), rest}.elements(), n = indices.type().elements();
  const Value rows = reshape(transpose(x, front), {x.dim(a), width});
  // Embedding goes through f32, which does not hold every integer.
  const Value picked = is_float(x.dtype()) ? embedding(rows, reshape(indices, {n}), x.dtype())
                                           : gather(rows, broadcast_to(reshape(indices, {n, 1}), {n, width}), 0);
  Shape shape = indices.shape();
  shape.insert(shape.end(), rest.begin(), rest.end());
  const Value y = reshape(picked, shape);  // [indices..., rest...]
  const int k = indices.rank();
  Ints order;
  for (int i = 0; i < a; ++i) {
    order.push_back(k + i);
  }
  for (int i = 0; i < k; ++i) {
    order.push_back(i);
  }
  for (int i = a; i < x.rank() - 1; ++i) {
    order.push_back(k + i);
  }
  return a == 0 ? y : transpose(y, order);
}

ISOTONE_OP(embedding, Embedding);

}  // namespace isotone::ops
