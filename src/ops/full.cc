// A tensor of one repeated value.
#include "ops/functions.h"
#include "ops/support/attributes.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct Full : NoGradient<Full>, NeverCut {
  static constexpr std::string_view name = "full";
  static Types infer(const InTypes& in, const Attrs& a) {
    require(in.size() == 0, "full: takes no tensor, got {}", in.size());
    static_cast<void>(a.real("value"));
    return {{plain_dtype_attr(name, a), shape_attr(name, a)}};
  }
  static void reference(const ReferenceCall& c) {
    const double value = c.attrs.real("value");
    for (std::int64_t i = 0; i < c.outputs[0].elements(); ++i) {
      if (is_float(c.outputs[0].type->dtype)) {
        c.outputs[0].set(i, static_cast<float>(value));
      } else {
        c.outputs[0].set_int(i, static_cast<std::int64_t>(value));
      }
    }
  }
  static std::vector<Sample> samples() {
    std::vector<Sample> out;
    for (int t = 0; t < 8; ++t) {
      out.push_back({{}, {{"shape", Ints{3, 5}}, {"value", 1.0}, {"dtype", std::int64_t{t}}}, false});
    }
    return out;
  }
};

}  // namespace

/// `shape` filled with `value`.
/// @api Value full(const Shape& shape, double value, DType dtype = DType::f32);
Value full(const Shape& shape, double value, DType dtype) {
  return apply1("full", {}, {{"shape", shape}, {"value", value}, {"dtype", as_attr(dtype)}});
}

/// `value` as a scalar of x's dtype, which broadcasts against x.
/// @api Value full_like(const Value& x, double value);
Value full_like(const Value& x, double value) {
  return full({}, value, x.dtype());
}

ISOTONE_OP(full, Full);

}  // namespace isotone::ops
