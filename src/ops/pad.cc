// Adds a border of one value around a tensor, and between its elements.
#include "ops/functions.h"
#include "ops/support/attributes.h"
#include "ops/support/shard.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct Pad {
  static constexpr std::string_view name = "pad";
  static constexpr bool wide_cotangent = true;
  static Types infer(const InTypes& in, const Attrs& a) {
    require(in.size() == 1, "pad: takes one tensor, got {}", in.size());
    require(!is_quantised(in[0].dtype), "pad: takes a tensor that is not quantised, got {}", ir::to_string(in[0]));
    static_cast<void>(a.real("value"));
    const Ints &low = a.ints("low"), &high = a.ints("high"), &inner = a.ints("inner");
    const std::size_t rank = in[0].shape.size();
    require(low.size() == rank && high.size() == rank && inner.size() == rank,
            "pad: {} needs one low, high and inner for each of its {} axes", ir::to_string(in[0]), rank);
    Type out = in[0];
    for (std::size_t i = 0; i < rank; ++i) {
      require(low[i] >= 0 && high[i] >= 0 && inner[i] >= 0,
              "pad: widths {}, {} and {} of axis {} must not be negative; use slice() to cut", low[i], high[i],
              inner[i], i);
      const std::int64_t n = out.shape[i];
      require(low[i] < kFar && high[i] < kFar && inner[i] < kFar && n < kFar,
              "pad: widths {}, {} and {} of axis {} must be below {}, and {} too", low[i], high[i], inner[i], i, kFar,
              ir::to_string(in[0]));
      out.shape[i] = low[i] + high[i] + (n == 0 ? 0 : n + (n - 1) * inner[i]);
    }
    require_sizes(name, out.shape);
    return {out};
  }
  static Values vjp(const VjpCall& c) {
    const Ints &low = c.attrs.ints("low"), &inner = c.attrs.ints("inner");
    Ints end(low), step(inner);
    for (std::size_t i = 0; i < low.size(); ++i) {
      const std::int64_t n = c.inputs[0].shape()[i];
      step[i] = inner[i] + 1;
      end[i] = low[i] + (n == 0 ? 0 : (n - 1) * step[i] + 1);
    }
    return {slice(c.cotangents[0], low, end, step)};
  }
  static void reference(const ReferenceCall& c) {
    const Ints &low = c.attrs.ints("low"), &inner = c.attrs.ints("inner");
    const HostTensor &x = c.inputs[0], &y = c.outputs[0];
    const bool floats = is_float(y.type->dtype);
    const double value = c.attrs.real("value");
    for (std::int64_t i = 0; i < y.elements(); ++i) {
      floats ? y.set(i, static_cast<float>(value)) : y.set_int(i, static_cast<std::int64_t>(value));
    }
    const auto to = ir::contiguous_strides(y.type->shape);
    for (std::int64_t i = 0; i < x.elements(); ++i) {
      std::int64_t rest = i, at = 0;
      for (std::size_t d = x.type->shape.size(); d-- > 0;) {
        at += (low[d] + rest % x.type->shape[d] * (inner[d] + 1)) * to[d];
        rest /= x.type->shape[d];
      }
      floats ? y.set(at, x.get(i)) : y.set_int(at, x.get_int(i));
    }
  }
  static ShardRule shard(const InTypes& in, const Types&, const Attrs& a) {
    Ints padded;
    for (std::size_t i = 0; i < in[0].shape.size(); ++i) {
      if (a.ints("low")[i] != 0 || a.ints("high")[i] != 0 || a.ints("inner")[i] != 0) {
        padded.push_back(static_cast<std::int64_t>(i));
      }
    }
    const std::string letters = letters_without(in[0].shape.size(), padded);
    return {{letters}, {letters}};
  }
  static std::vector<Sample> samples() {
    return {
        {{{{DType::f32, {2, 3}}}}, {{"low", Ints{1, 0}}, {"high", Ints{0, 2}}, {"inner", Ints{0, 1}}, {"value", 0.5}}},
        {{{{DType::bf16, {4, 3}}}},
         {{"low", Ints{0, 2}}, {"high", Ints{3, 0}}, {"inner", Ints{2, 0}}, {"value", 0.0}},
         false}};
  }
};

}  // namespace

/// x with low[i] values before, high[i] after and inner[i] between the elements of axis i, all of them `value`.
/// @api Value pad(const Value& x, Ints low, Ints high, double value = 0.0, Ints inner = {});
Value pad(const Value& x, Ints low, Ints high, double value, Ints inner) {
  if (inner.empty()) {
    inner.assign(low.size(), 0);
  }
  return apply1("pad", {x},
                {{"low", std::move(low)}, {"high", std::move(high)}, {"inner", std::move(inner)}, {"value", value}});
}

ISOTONE_OP(pad, Pad);

}  // namespace isotone::ops
