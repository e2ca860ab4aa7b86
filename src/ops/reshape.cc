// The same elements in another shape.
#include "ops/functions.h"
#include "ops/support/attributes.h"
#include "ops/support/shard.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct Reshape {
  static constexpr std::string_view name = "reshape";
  static constexpr bool wide_cotangent = true;
  static Types infer(const InTypes& in, const Attrs& a) {
    require(in.size() == 1, "reshape: takes one tensor, got {}", in.size());
    const Type out{in[0].dtype, shape_attr(name, a)};
    require(out.elements() == in[0].elements(), "reshape: {} has {} elements, but shape {} has {}",
            ir::to_string(in[0]), in[0].elements(), ir::to_string(out.shape), out.elements());
    require(!is_quantised(in[0].dtype), "reshape: {} keeps its rows; cast() it first", ir::to_string(in[0]));
    return {out};
  }
  static Values vjp(const VjpCall& c) { return {reshape(c.cotangents[0], c.inputs[0].shape())}; }
  static void reference(const ReferenceCall& c) {
    std::memcpy(c.outputs[0].data, c.inputs[0].data, c.outputs[0].type->bytes());
  }
  static ShardRule shard(const InTypes& in, const Types& out, const Attrs&) {
    // Runs of dimensions that multiply to the same on both sides are one group. The outermost dimension of each side
    // may be cut where all inside it stays together.
    const Shape &from = in[0].shape, &to = out[0].shape;
    ShardRule rule{{std::string(from.size(), '.')}, {std::string(to.size(), '.')}};
    rule.input_units = {Ints(from.size(), 1)};
    rule.output_units = {Ints(to.size(), 1)};
    if (in[0].elements() == 0) {
      return rule;
    }
    std::size_t i = 0, o = 0;
    for (char letter = 'a'; i < from.size() && o < to.size(); ++letter) {
      const std::size_t first_in = i, first_out = o;
      std::int64_t a = from[i++], b = to[o++];
      while (a != b) {
        a < b ? a *= from[i++] : b *= to[o++];
      }
      // In units of the larger of what stays together.
      const std::int64_t inside_in = a / from[first_in], inside_out = b / to[first_out];
      const std::int64_t unit = std::max(inside_in, inside_out);
      if (from[first_in] > 1 && to[first_out] > 1 && unit % inside_in == 0 && unit % inside_out == 0) {
        rule.inputs[0][first_in] = letter;
        rule.outputs[0][first_out] = letter;
        rule.input_units[0][first_in] = unit / inside_in;
        rule.output_units[0][first_out] = unit / inside_out;
      }
    }
    return rule;
  }
  static std::vector<Sample> samples() {
    return {{{{{DType::f32, {4, 6}}}}, {{"shape", Ints{3, 8}}}},
            {{{{DType::bf16, {2, 3, 5}}}}, {{"shape", Ints{30}}}, false},
            {{{{DType::i32, {1}}, 0, 9}}, {{"shape", Ints{}}}, false}};
  }
};

}  // namespace

/// x in another shape of as many elements, read in row-major order. One size may be -1: what is left. No copy where x
/// is contiguous.
/// @api Value reshape(const Value& x, Shape shape);
Value reshape(const Value& x, Shape shape) {
  if (x.shape() == shape) {
    return x;
  }
  std::int64_t known = 1;
  std::int64_t* open = nullptr;
  for (std::int64_t& d : shape) {
    if (d == -1) {
      require(open == nullptr, "reshape: shape {} has -1 twice", ir::to_string(shape));
      open = &d;
    } else {
      require(d >= 0, "reshape: shape {} has a negative size", ir::to_string(shape));
      require(d == 0 || known <= INT64_MAX / d, "reshape: shape {} has more elements than {}", ir::to_string(shape),
              ir::to_string(x.type()));
      known *= d;
    }
  }
  if (open != nullptr) {
    require(known != 0 && x.type().elements() % known == 0, "reshape: {} does not divide into {}",
            ir::to_string(x.type()), ir::to_string(shape));
    *open = x.type().elements() / known;
  }
  return apply1("reshape", {x}, {{"shape", std::move(shape)}});
}

ISOTONE_OP(reshape, Reshape);

}  // namespace isotone::ops
