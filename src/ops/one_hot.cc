// Rows that are 1 at an index and 0 elsewhere.
#include "ops/support/attributes.h"
#include "ops/support/index.h"
#include "ops/support/shard.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct OneHot : NoGradient<OneHot> {
  static constexpr std::string_view name = "one_hot";
  static Types infer(const InTypes& in, const Attrs& a) {
    require(in.size() == 1, "one_hot: takes one tensor of indices, got {}", in.size());
    require_index(name, in[0]);
    require(a.integer("classes") >= 1, "one_hot: needs at least one class, got {}", a.integer("classes"));
    Shape out = in[0].shape;
    out.push_back(a.integer("classes"));
    require_sizes(name, out);
    return {{plain_dtype_attr(name, a), out}};
  }
  static Values decompose(const Values& in, const Attrs& a) {
    Shape column = in[0].shape();
    column.push_back(1);
    return {cast(equal(reshape(in[0], column), iota({a.integer("classes")}, 0, in[0].dtype())), a.dtype("dtype"))};
  }
  static ShardRule shard(const InTypes& in, const Types&, const Attrs&) {
    const std::string letters = letters_without(in[0].shape.size(), {});
    return {{letters}, {letters + '.'}};
  }
  static std::vector<Sample> samples() {
    return {{{{{DType::i32, {3, 4}}, 0, 6}}, {{"classes", std::int64_t{6}}, {"dtype", as_attr(DType::f32)}}, false}};
  }
};

}  // namespace

/// [..., classes]: 1 where the class is the index, else 0; all 0 for an index outside. indices i32 or i64.
/// @api Value one_hot(const Value& indices, std::int64_t classes, DType dtype = DType::f32);
Value one_hot(const Value& indices, std::int64_t classes, DType dtype) {
  return apply1("one_hot", {indices}, {{"classes", classes}, {"dtype", as_attr(dtype)}});
}

ISOTONE_OP(one_hot, OneHot);

}  // namespace isotone::ops
