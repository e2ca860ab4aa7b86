// Ascending numbers along one axis.
#include "ops/functions.h"
#include "ops/support/attributes.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct Iota : NoGradient<Iota>, NeverCut {
  static constexpr std::string_view name = "iota";
  static Types infer(const InTypes& in, const Attrs& a) {
    require(in.size() == 0, "iota: takes no tensor, got {}", in.size());
    const Shape& shape = shape_attr(name, a);
    axis_attr(name, a, static_cast<int>(shape.size()));
    return {{plain_dtype_attr(name, a), shape}};
  }
  static void reference(const ReferenceCall& c) {
    const Shape& shape = c.outputs[0].type->shape;
    const auto axis = static_cast<std::size_t>(c.attrs.integer("axis"));
    const std::int64_t stride = ir::contiguous_strides(shape)[axis];
    for (std::int64_t i = 0; i < c.outputs[0].elements(); ++i) {
      c.outputs[0].set_int(i, i / stride % shape[axis]);
    }
  }
  static std::vector<Sample> samples() {
    return {{{}, {{"shape", Ints{7}}, {"axis", std::int64_t{0}}, {"dtype", as_attr(DType::i32)}}, false},
            {{}, {{"shape", Ints{3, 4, 2}}, {"axis", std::int64_t{1}}, {"dtype", as_attr(DType::f32)}}, false}};
  }
};

}  // namespace

/// 0, 1, 2, ... along `axis` of `shape`, the same along the others.
/// @api Value iota(const Shape& shape, std::int64_t axis = 0, DType dtype = DType::i32);
Value iota(const Shape& shape, std::int64_t axis, DType dtype) {
  return apply1("iota", {},
                {{"shape", shape},
                 {"axis", std::int64_t{ir::normal_axis(axis, static_cast<int>(shape.size()), "iota")}},
                 {"dtype", as_attr(dtype)}});
}

ISOTONE_OP(iota, Iota);

}  // namespace isotone::ops
