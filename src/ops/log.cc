// The natural logarithm of each element: -inf at 0, NaN below.
#include "ops/support/elementwise.h"

namespace isotone::ops {
namespace {

struct Log : Unary<Log> {
  static constexpr std::string_view name = "log";
  static float f(float x) { return fmath::log(x); }
  static Value grad(const Value& x, const Value& y, const Value& g) {
    static_cast<void>(x);
    static_cast<void>(y);
    return div(g, x);
  }
  static std::vector<Sample> samples() { return unary_samples(0.2, 4.0); }
};

}  // namespace

/// The natural logarithm of each element: -inf at 0, NaN below. f32, bf16 or f16 of any shape; the same type back.
/// @api Value log(const Value& x);
Value log(const Value& x) {
  return apply1("log", {x});
}

ISOTONE_OP(log, Log);

}  // namespace isotone::ops
