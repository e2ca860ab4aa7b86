// One step of AdamW (Loshchilov and Hutter, 2017).
#include "ops/support/rows.h"
#include "ops/support/shard.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct Adamw : NoGradient<Adamw> {
  static constexpr std::string_view name = "adamw";
  static Types infer(const InTypes& in, const Attrs&) {
    require(in.size() == 5, "adamw: takes p, m, v, g and the scalars, got {} inputs", in.size());
    for (int i = 0; i < 4; ++i) {
      require(in[i].dtype == DType::f32 && in[i].shape == in[0].shape,
              "adamw: p, m, v and g must be f32 of one shape, got {} and {}", ir::to_string(in[0]),
              ir::to_string(in[i]));
    }
    require(in[4] == (Type{DType::f32, {8}}), "adamw: the scalars must be f32[8], got {}", ir::to_string(in[4]));
    return {in[0], in[0], in[0]};
  }
  static Values decompose(const Values& in, const Attrs&) {
    const auto s = [&](std::int64_t i) { return reshape(slice_axis(in[4], 0, i, i + 1), {}); };
    const Value lr = s(0), b1 = s(1), b2 = s(2), eps = s(3), wd = s(4), c1 = s(5), c2 = s(6), clip = s(7);
    const Value one = constant(1.0);
    const Value g = mul(in[3], clip);
    const Value m = add(mul(b1, in[1]), mul(sub(one, b1), g));
    const Value v = add(mul(b2, in[2]), mul(mul(sub(one, b2), g), g));
    const Value u = div(mul(m, c1), add(sqrt(mul(v, c2)), eps));
    return {sub(in[0], mul(lr, add(u, mul(wd, in[0])))), m, v};
  }
  static ShardRule shard(const InTypes& in, const Types&, const Attrs&) {
    const std::string all = letters_without(in[0].shape.size(), {});
    return {{all, all, all, all, "."}, {all, all, all}};
  }
  static std::vector<Sample> samples() {
    std::vector<Sample> out;
    for (const Shape& s : {Shape{37}, Shape{3, 576}}) {
      const SampleInput x{{DType::f32, s}}, v{{DType::f32, s}, 0.0, 1.0};
      out.push_back({{x, x, v, x, {{DType::f32, {8}}, 0.01, 0.9}}, {}, false});
    }
    return out;
  }
};

}  // namespace

/// {p, m, v} after one step, all f32 of one shape, in the listed order of docs/numerics.md section 12. scalars f32[8]:
/// learning rate, beta1, beta2, epsilon, weight decay, 1/(1-beta1^t), 1/(1-beta2^t), clip factor. Donated p, m and v
/// are updated in place.
/// @api Values adamw(const Value& p, const Value& m, const Value& v, const Value& g, const Value& scalars);
Values adamw(const Value& p, const Value& m, const Value& v, const Value& g, const Value& scalars) {
  return apply("adamw", {p, m, v, g, scalars});
}

ISOTONE_OP(adamw, Adamw);

}  // namespace isotone::ops
