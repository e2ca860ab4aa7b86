// Joins tensors along an axis.
#include "ops/functions.h"
#include "ops/support/attributes.h"
#include "ops/support/shard.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct Concat : AlongAxis {
  static constexpr std::string_view name = "concat";
  static constexpr bool wide_cotangent = true;
  static Types infer(const InTypes& in, const Attrs& a) {
    require(in.size() >= 1, "concat: takes at least one tensor");
    require_same_dtype(name, in, 0, in.size() - 1);
    require(!is_quantised(in[0].dtype), "concat: does not take {}", ir::to_string(in[0]));
    const std::size_t axis = axis_attr(name, a, in[0].rank());
    Type out = in[0];
    for (int i = 1; i < in.size(); ++i) {
      Shape expected = in[0].shape;
      require(in[i].rank() == in[0].rank(), "concat: {} and {} differ in rank", ir::to_string(in[0]),
              ir::to_string(in[i]));
      expected[axis] = in[i].shape[axis];
      require(in[i].shape == expected, "concat: {} and {} may differ along axis {} only", ir::to_string(in[0]),
              ir::to_string(in[i]), axis);
      out.shape[axis] += in[i].shape[axis];
    }
    return {out};
  }
  static Values vjp(const VjpCall& c) {
    const std::int64_t axis = c.attrs.integer("axis");
    Values out;
    std::int64_t at = 0;
    for (const Value& v : c.inputs) {
      out.push_back(slice_axis(c.cotangents[0], axis, at, at + v.dim(axis)));
      at += v.dim(axis);
    }
    return out;
  }
  static void reference(const ReferenceCall& c) {
    const auto axis = static_cast<std::size_t>(c.attrs.integer("axis"));
    const Shape& shape = c.outputs[0].type->shape;
    const std::size_t unit = unit_bytes(c.outputs[0].type->dtype);
    std::size_t outer = 1, inner = unit;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      (i < axis ? outer : inner) *= i == axis ? 1 : static_cast<std::size_t>(shape[i]);
    }
    auto* to = static_cast<std::byte*>(c.outputs[0].data);
    for (std::size_t o = 0; o < outer; ++o) {
      for (const HostTensor& x : c.inputs) {
        const std::size_t bytes = static_cast<std::size_t>(x.type->shape[axis]) * inner;
        if (bytes > 0) {
          std::memcpy(to, static_cast<const std::byte*>(x.data) + o * bytes, bytes);
        }
        to += bytes;
      }
    }
  }
  static std::vector<Sample> samples() {
    return {{{{{DType::f32, {2, 3}}}, {{DType::f32, {2, 5}}}}, {{"axis", std::int64_t{1}}}},
            {{{{DType::bf16, {4, 3}}}, {{DType::bf16, {1, 3}}}, {{DType::bf16, {2, 3}}}},
             {{"axis", std::int64_t{0}}},
             false}};
  }
};

}  // namespace

/// The tensors one after another along `axis`; of one dtype, equal in the other sizes.
/// @api Value concat(Values xs, std::int64_t axis = 0);
Value concat(Values xs, std::int64_t axis) {
  require(!xs.empty(), "concat: takes at least one tensor");
  const std::int64_t a = ir::normal_axis(axis, xs[0].rank(), "concat");
  return xs.size() == 1 ? xs[0] : apply1("concat", std::move(xs), {{"axis", a}});
}

ISOTONE_OP(concat, Concat);

}  // namespace isotone::ops
