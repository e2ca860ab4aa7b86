// The exact sum of all elements of several tensors, rounded once: the same for any sharding.
#include "base/exact_sum.h"
#include "ops/functions.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct ExactSum : NeverCut {
  static constexpr std::string_view name = "exact_sum";
  static Types infer(const InTypes& in, const Attrs& a) {
    require(in.size() >= 1, "exact_sum: takes at least one tensor, got none");
    for (int i = 0; i < in.size(); ++i) {
      require(in[i].dtype == DType::f32, "exact_sum: takes f32, got {}; cast() it", ir::to_string(in[i]));
    }
    static_cast<void>(a.flag("squares"));
    return {{DType::f32, {}}};
  }
  static Values vjp(const VjpCall& c) {
    Values out;
    for (const Value& x : c.inputs) {
      const Value g = broadcast_to(c.cotangents[0], x.shape());
      out.push_back(c.attrs.flag("squares") ? mul(g, mul(x, full({}, 2.0))) : g);
    }
    return out;
  }
  static void reference(const ReferenceCall& c) {
    isotone::ExactSum total;
    for (const HostTensor& x : c.inputs) {
      const std::span<const float> all(static_cast<const float*>(x.data), static_cast<std::size_t>(x.elements()));
      c.attrs.flag("squares") ? total.add_squares(all) : total.add(all);
    }
    c.outputs[0].set(0, total.round_to_float());
  }
  static std::vector<Sample> samples() {
    const auto attrs = [](std::int64_t squares) { return Attrs{{"squares", squares}}; };
    return {{{{{DType::f32, {3, 37}}}}, attrs(0)},
            {{{{DType::f32, {40}}}, {{DType::f32, {3, 5}}}}, attrs(1)},
            {{{{DType::f32, {5000}}, -1e30, 1e30}, {{DType::f32, {5000}}, -1e-30, 1e-30}}, attrs(0), false}};
  }
};

}  // namespace

/// The sum of all elements of f32 tensors (of their squares if `squares`), exact before one rounding to f32: a scalar.
/// @api Value exact_sum(Values xs, bool squares = false);
Value exact_sum(Values xs, bool squares) {
  return apply1("exact_sum", std::move(xs), {{"squares", std::int64_t{squares}}});
}

ISOTONE_OP(exact_sum, ExactSum);

}  // namespace isotone::ops
