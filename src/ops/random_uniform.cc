// Random numbers in [0, 1), as a function of global coordinates.
#include "ops/support/random.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct RandomUniform : NoGradient<RandomUniform>, NeverCut {
  static constexpr std::string_view name = "random_uniform";
  static Types infer(const InTypes& in, const Attrs& a) {
    infer_random(name, in, a);
    return {{DType::f32, a.ints("shape")}};
  }
  static void reference(const ReferenceCall& c) {
    for_each_random(c, [&](const Philox& philox, std::int64_t i, std::uint32_t a, std::uint32_t b) {
      c.outputs[0].set(i, philox.uniform(static_cast<std::uint64_t>(i), a, b));
    });
  }
  static std::vector<Sample> samples() { return random_samples(false); }
};

}  // namespace

/// `shape` of f32 in [0, 1): a function of (seed, key, step, coordinates) alone. `key` names the use; step is an i64
/// scalar.
/// @api Value random_uniform(const Value& step, const Shape& shape, std::int64_t seed, const std::string& key);
Value random_uniform(const Value& step, const Shape& shape, std::int64_t seed, const std::string& key) {
  return apply1("random_uniform", {step}, {{"shape", shape}, {"seed", seed}, {"key", key}});
}

ISOTONE_OP(random_uniform, RandomUniform);

}  // namespace isotone::ops
