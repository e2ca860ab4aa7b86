// What composites over the last axis share: in section 12's words, rows.
#pragma once

#include "ops/support/reduction.h"

namespace isotone::ops {

inline Value as_f32(const Value& x) {
  return cast(x, DType::f32);
}
inline Value constant(double v) {
  return full({}, v);
}
inline Value row_sum(const Value& x) {
  return sum(x, {-1}, true);
}
inline Value row_max(const Value& x) {
  return max(x, {-1}, true);
}
inline double row_length(const Value& x) {
  return static_cast<double>(x.dim(-1));
}

/// 1 / sqrt(mean(x*x) + eps) of each row of an f32 tensor, axis kept.
inline Value rms_scale(const Value& x, double eps) {
  return rsqrt(add(div(row_sum(mul(x, x)), constant(row_length(x))), constant(eps)));
}

inline void require_rows(std::string_view op, const Type& t) {
  require_float(op, t);
  require(t.rank() >= 1 && t.shape.back() >= 1, "{}: needs a last axis of at least one element, got {}", op,
          ir::to_string(t));
}

inline void require_same_type(std::string_view op, const InTypes& in, int a, int b) {
  require(in[a] == in[b], "{}: inputs {} and {} must have one type, but are {} and {}", op, a, b, ir::to_string(in[a]),
          ir::to_string(in[b]));
}

/// Samples with `n` inputs of one type, over dtypes and row lengths; attributes the same for all.
inline std::vector<Sample> row_samples(int n, const Attrs& attrs = {}) {
  std::vector<Sample> out;
  for (const DType t : {DType::f32, DType::bf16, DType::f16}) {
    for (const Shape& s : {Shape{3, 33}, Shape{2, 2, 8}, Shape{2, 576}, Shape{1, 1000}}) {
      out.push_back({std::vector<SampleInput>(static_cast<std::size_t>(n), SampleInput{{t, s}}), attrs,
                     t == DType::f32 && s.back() < 100});
    }
  }
  return out;
}

}  // namespace isotone::ops
