// Sum of the gradients that the uses of one value send back.
#include "ops/functions.h"
#include "ops/support/attributes.h"
#include "ops/support/shard.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct FanIn : Elementwise {
  static constexpr std::string_view name = "fan_in";
  static Types infer(const InTypes& in, const Attrs& a) {
    require(in.size() >= 1, "fan_in: takes at least one tensor, got none");
    for (int i = 0; i < in.size(); ++i) {
      require_float(name, in[i]);
      require(in[i].shape == in[0].shape, "fan_in: shapes {} and {} differ", ir::to_string(in[0]),
              ir::to_string(in[i]));
    }
    return {{float_dtype_attr(name, a), in[0].shape}};
  }
  static Values decompose(const Values& in, const Attrs& a) {
    Value sum = cast(in[0], DType::f32);
    for (std::size_t i = 1; i < in.size(); ++i) {
      sum = add(sum, cast(in[i], DType::f32));
    }
    return {cast(sum, a.dtype("dtype"))};
  }
  static Values vjp(const VjpCall& c) {
    Values out;
    for (const Value& v : c.inputs) {
      out.push_back(cast(c.cotangents[0], v.dtype()));
    }
    return out;
  }
  static std::vector<Sample> samples() {
    return {
        {{{{DType::f32, {4, 33}}}, {{DType::f32, {4, 33}}}, {{DType::f32, {4, 33}}}}, {{"dtype", as_attr(DType::f32)}}},
        {{{{DType::bf16, {4, 33}}}, {{DType::bf16, {4, 33}}}, {{DType::bf16, {4, 33}}}},
         {{"dtype", as_attr(DType::bf16)}},
         false}};
  }
};

}  // namespace

/// ((x0 + x1) + x2) + ... in f32, rounded once to `dtype`. Floats of one shape.
/// @api Value fan_in(Values xs, DType dtype);
Value fan_in(Values xs, DType dtype) {
  return apply1("fan_in", std::move(xs), {{"dtype", as_attr(dtype)}});
}

ISOTONE_OP(fan_in, FanIn);

}  // namespace isotone::ops
