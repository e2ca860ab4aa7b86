// Random numbers that are true with a given probability, as a function of global coordinates.
#include "ops/support/random.h"

#include "base/error.h"

namespace isotone::ops {
namespace {

struct RandomBernoulli : NoGradient<RandomBernoulli>, NeverCut {
  static constexpr std::string_view name = "random_bernoulli";
  static Types infer(const InTypes& in, const Attrs& a) {
    infer_random(name, in, a);
    require(a.real("p") >= 0.0 && a.real("p") <= 1.0, "random_bernoulli: probability {} is outside [0, 1]",
            a.real("p"));
    return {{DType::boolean, a.ints("shape")}};
  }
  static void reference(const ReferenceCall& c) {
    for_each_random(c, [&](const Philox& philox, std::int64_t i, std::uint32_t a, std::uint32_t b) {
      c.outputs[0].set_int(
          i, philox.bernoulli(static_cast<float>(c.attrs.real("p")), static_cast<std::uint64_t>(i), a, b) ? 1 : 0);
    });
  }
  static std::vector<Sample> samples() { return random_samples(true); }
};

}  // namespace

/// `shape` of bools that are true with a given probability: a function of (seed, key, step, coordinates) alone. `key`
/// names the use; step is an i64 scalar.
/// @api Value random_bernoulli(const Value& step, const Shape& shape, double p, std::int64_t seed, const std::string&
/// key);
Value random_bernoulli(const Value& step, const Shape& shape, double p, std::int64_t seed, const std::string& key) {
  return apply1("random_bernoulli", {step}, {{"shape", shape}, {"p", p}, {"seed", seed}, {"key", key}});
}

ISOTONE_OP(random_bernoulli, RandomBernoulli);

}  // namespace isotone::ops
