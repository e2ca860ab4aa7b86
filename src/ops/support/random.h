// What random operations share: their type rule and samples. An element's number is a function of (seed, key, step,
// index).
#pragma once

#include "base/error.h"
#include "base/philox.h"
#include "ops/functions.h"
#include "ops/support/attributes.h"

namespace isotone::ops {

inline void infer_random(std::string_view op, const InTypes& in, const Attrs& a) {
  require(in.size() == 1, "{}: takes the step, got {} inputs", op, in.size());
  require(in[0] == (Type{DType::i64, {}}), "{}: the step must be an i64 scalar, got {}", op, ir::to_string(in[0]));
  shape_attr(op, a);
  static_cast<void>(a.integer("seed"));
  static_cast<void>(a.text("key"));
}

/// Calls draw(philox, index, low half of step, high half of step) for every element of the output.
template <class Draw>
void for_each_random(const ReferenceCall& c, const Draw& draw) {
  const Philox philox(static_cast<std::uint64_t>(c.attrs.integer("seed")), c.attrs.text("key"));
  const auto step = static_cast<std::uint64_t>(c.inputs[0].get_int(0));
  for (std::int64_t i = 0; i < c.outputs[0].elements(); ++i) {
    draw(philox, i, static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(step >> 32));
  }
}

inline std::vector<Sample> random_samples(bool with_p) {
  Attrs attrs{{"shape", Ints{3, 70}}, {"seed", std::int64_t{42}}, {"key", std::string("test")}};
  if (with_p) {
    attrs.set("p", 0.3);
  }
  return {{{{{DType::i64, {}}, 0, 100}}, attrs, false}};
}

}  // namespace isotone::ops
