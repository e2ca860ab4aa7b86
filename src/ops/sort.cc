// Sorts along an axis.
#include <algorithm>
#include "ops/support/attributes.h"
#include "ops/support/index.h"
#include "ops/support/shard.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct Sort : AlongAxis {
  static constexpr std::string_view name = "sort";
  static Types infer(const InTypes& in, const Attrs& a) {
    require(in.size() == 1, "sort: takes one tensor, got {}", in.size());
    require_float(name, in[0]);
    axis_attr(name, a, in[0].rank());
    static_cast<void>(a.flag("descending"));
    return {in[0], {DType::i32, in[0].shape}};
  }
  static Values vjp(const VjpCall& c) {
    const Value zero = broadcast_to(full({}, 0.0, c.cotangents[0].dtype()), c.inputs[0].shape());
    return {scatter_add(zero, c.outputs[1], c.cotangents[0], c.attrs.integer("axis"))};
  }
  static void reference(const ReferenceCall& c) {
    const AxisSplit x(c.inputs[0].type->shape, c.attrs.integer("axis"));
    const bool down = c.attrs.flag("descending");
    std::vector<std::int64_t> order(static_cast<std::size_t>(x.n));
    for (std::int64_t o = 0; o < x.outer * x.inner; ++o) {
      const auto at = [&](std::int64_t i) { return (o / x.inner * x.n + i) * x.inner + o % x.inner; };
      for (std::int64_t i = 0; i < x.n; ++i) {
        order[static_cast<std::size_t>(i)] = i;
      }
      std::stable_sort(order.begin(), order.end(), [&](std::int64_t i, std::int64_t j) {
        const float a = c.inputs[0].get(at(i)), b = c.inputs[0].get(at(j));
        if (a != a || b != b) {
          return a == a && b != b;  // NaN last
        }
        return down ? a > b : a < b;
      });
      for (std::int64_t i = 0; i < x.n; ++i) {
        copy_element(c.outputs[0], at(i), c.inputs[0], at(order[static_cast<std::size_t>(i)]));
        c.outputs[1].set_int(at(i), order[static_cast<std::size_t>(i)]);
      }
    }
  }
  static std::vector<Sample> samples() {
    return {{{{{DType::f32, {3, 37}}}}, {{"axis", std::int64_t{1}}, {"descending", std::int64_t{0}}}},
            {{{{DType::bf16, {40, 2}}}}, {{"axis", std::int64_t{0}}, {"descending", std::int64_t{1}}}, false}};
  }
};

}  // namespace

/// {sorted values, their positions (i32)} along `axis`; stable, NaN last. Floats.
/// @api Values sort(const Value& x, std::int64_t axis = -1, bool descending = false);
Values sort(const Value& x, std::int64_t axis, bool descending) {
  return apply(
      "sort", {x},
      {{"axis", std::int64_t{ir::normal_axis(axis, x.rank(), "sort")}}, {"descending", std::int64_t{descending}}});
}

ISOTONE_OP(sort, Sort);

}  // namespace isotone::ops
