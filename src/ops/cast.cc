// Converts the dtype of a tensor.
#include "ops/functions.h"
#include "ops/support/attributes.h"
#include "ops/support/shard.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct Cast : Elementwise {
  static constexpr std::string_view name = "cast";
  static constexpr bool wide_cotangent = true;
  static Types infer(const InTypes& in, const Attrs& a) {
    require(in.size() == 1, "cast: takes one tensor, got {}", in.size());
    return {{plain_dtype_attr(name, a), in[0].shape}};
  }
  static Values vjp(const VjpCall& c) {
    const DType from = c.inputs[0].dtype();
    return {is_float(from) && !is_quantised(from) ? cast(c.cotangents[0], from) : Value()};
  }
  static void reference(const ReferenceCall& c) {
    const DType from = c.inputs[0].type->dtype;
    for (std::int64_t i = 0; i < c.outputs[0].elements(); ++i) {
      if (is_float(from) || is_quantised(from)) {
        c.outputs[0].set(i, c.inputs[0].get(i));
      } else {
        c.outputs[0].set_int(i, c.inputs[0].get_int(i));
      }
    }
  }
  static std::vector<Sample> samples() {
    std::vector<Sample> out;
    for (const DType from :
         {DType::f32, DType::bf16, DType::f16, DType::i8, DType::u8, DType::i32, DType::i64, DType::boolean}) {
      for (const DType to :
           {DType::f32, DType::bf16, DType::f16, DType::i8, DType::u8, DType::i32, DType::i64, DType::boolean}) {
        out.push_back({{{{from, {3, 37}}, from == DType::boolean ? 0.0 : -3.0, from == DType::boolean ? 2.0 : 3.0}},
                       {{"dtype", as_attr(to)}},
                       from == DType::f32 && to == DType::f32});
      }
    }
    for (const DType from : {DType::q4_0, DType::q4_1, DType::q8_0}) {
      out.push_back({{{{from, {3, 64}}}}, {{"dtype", as_attr(DType::f32)}}, false});
    }
    return out;
  }
};

}  // namespace

/// x as `dtype`. Floats round to nearest even; floats to integers truncate and saturate, NaN gives 0; integers
/// wrap; to bool: not zero.
/// Quantised weights can be read (to a float dtype), not made. The same dtype gives x itself.
/// @api Value cast(const Value& x, DType dtype);
Value cast(const Value& x, DType dtype) {
  return x.dtype() == dtype ? x : apply1("cast", {x}, {{"dtype", as_attr(dtype)}});
}

ISOTONE_OP(cast, Cast);

}  // namespace isotone::ops
