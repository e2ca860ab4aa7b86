// The spans of elementwise_table.h over one vector type.
#pragma once

#include <utility>

#include "backends/cpu/kernels/elementwise_table.h"
#include "backends/cpu/kernels/vec.h"

namespace isotone::cpu {

template <class V>
ISOTONE_INLINE V flip_sign(V x) {
  return V::from_bits(bits(x) ^ typename V::I(static_cast<std::int32_t>(0x80000000U)));
}
/// Subnormals made zeros by bits: a comparison with a choice becomes one maximum instruction or not as the compiler
/// likes, and only the former flushes.
template <class V>
ISOTONE_INLINE V flushed(V x) {
  using I = typename V::I;
  const I b = bits(x);
  return V::from_bits(select((b & I(0x7f800000)) == I(0), b & I(static_cast<std::int32_t>(0x80000000U)), b));
}
template <class V>
ISOTONE_INLINE V maximum(V a, V b) {
  a = flushed(a);
  b = flushed(b);
  return select(b == b, select(a < b, b, a), b);
}
template <class V>
ISOTONE_INLINE V minimum(V a, V b) {
  a = flushed(a);
  b = flushed(b);
  return select(b == b, select(b < a, b, a), b);
}

template <class V, UnaryOp op>
ISOTONE_INLINE V apply_unary(V x) {
  const V one(1.0F);
  switch (op) {
    case UnaryOp::neg:
      return flip_sign(x);
    case UnaryOp::abs:
      return fmath::abs(x);
    case UnaryOp::exp:
      return fmath::exp_v(x);
    case UnaryOp::log:
      return fmath::log_v(x);
    case UnaryOp::sin:
      return fmath::sin_v(x);
    case UnaryOp::cos:
      return fmath::cos_v(x);
    case UnaryOp::tanh:
      return fmath::tanh_v(x);
    case UnaryOp::erf:
      return fmath::erf_v(x);
    case UnaryOp::sigmoid:
      return one / (one + fmath::exp_v(flip_sign(x)));
    case UnaryOp::silu:
      return x / (one + fmath::exp_v(flip_sign(x)));
    case UnaryOp::gelu_erf:
      return (V(0.5F) * x) * (one + fmath::erf_v(x * V(0.70710678F)));
    case UnaryOp::gelu_tanh:
      return (V(0.5F) * x) * (one + fmath::tanh_v(V(0.79788456F) * (x + V(0.044715F) * ((x * x) * x))));
    case UnaryOp::relu:
      return maximum(x, V(0.0F));
    case UnaryOp::sqrt:
      return sqrt(x);
    case UnaryOp::rsqrt:
      return one / sqrt(x);
  }
}

template <class V, BinaryOp op>
ISOTONE_INLINE V apply_binary(V a, V b) {
  switch (op) {
    case BinaryOp::add:
      return a + b;
    case BinaryOp::sub:
      return a - b;
    case BinaryOp::mul:
      return a * b;
    case BinaryOp::div:
      return a / b;
    case BinaryOp::pow:
      return fmath::pow_v(a, b);
    case BinaryOp::max:
      return maximum(a, b);
    case BinaryOp::min:
      return minimum(a, b);
  }
}

template <class V, class T, UnaryOp op>
void unary_span(void* yv, const void* xv, std::int64_t n) {
  T* y = static_cast<T*>(yv);
  const T* x = static_cast<const T*>(xv);
  for_lanes(n, [&](std::int64_t i, auto lanes) { write(y + i, apply_unary<V, op>(read<V>(x + i, lanes)), lanes); });
}

template <class V, class T, BinaryOp op>
void binary_span(void* yv, const void* av, const void* bv, std::int64_t n) {
  T* y = static_cast<T*>(yv);
  const T* a = static_cast<const T*>(av);
  const T* b = static_cast<const T*>(bv);
  for_lanes(n, [&](std::int64_t i, auto lanes) {
    write(y + i, apply_binary<V, op>(read<V>(a + i, lanes), read<V>(b + i, lanes)), lanes);
  });
}

template <class V, class T>
void clamp_span(void* yv, const void* xv, float low, float high, std::int64_t n) {
  T* y = static_cast<T*>(yv);
  const T* x = static_cast<const T*>(xv);
  for_lanes(n, [&](std::int64_t i, auto lanes) {
    write(y + i, minimum(maximum(read<V>(x + i, lanes), V(low)), V(high)), lanes);
  });
}

template <class V, class T>
void fan_in_span(void* yv, const void* const* inputs, std::int64_t count, std::int64_t from, std::int64_t n) {
  T* y = static_cast<T*>(yv) + from;
  for_lanes(n, [&](std::int64_t i, auto lanes) {
    V sum = read<V>(static_cast<const T*>(inputs[0]) + from + i, lanes);
    for (std::int64_t k = 1; k < count; ++k) {
      sum = sum + read<V>(static_cast<const T*>(inputs[k]) + from + i, lanes);
    }
    write(y + i, sum, lanes);
  });
}

template <class V, class From, class To>
void cast_span(void* yv, const void* xv, std::int64_t n) {
  To* y = static_cast<To*>(yv);
  const From* x = static_cast<const From*>(xv);
  for_lanes(n, [&](std::int64_t i, auto lanes) { write(y + i, read<V>(x + i, lanes), lanes); });
}

template <class V, int... kUnary, int... kBinary>
constexpr ElementwiseTable fill_elementwise(std::integer_sequence<int, kUnary...>,
                                            std::integer_sequence<int, kBinary...>) {
  return {{{unary_span<V, float, static_cast<UnaryOp>(kUnary)>, unary_span<V, bf16, static_cast<UnaryOp>(kUnary)>,
            unary_span<V, f16, static_cast<UnaryOp>(kUnary)>}...},
          {{binary_span<V, float, static_cast<BinaryOp>(kBinary)>, binary_span<V, bf16, static_cast<BinaryOp>(kBinary)>,
            binary_span<V, f16, static_cast<BinaryOp>(kBinary)>}...},
          {clamp_span<V, float>, clamp_span<V, bf16>, clamp_span<V, f16>},
          {fan_in_span<V, float>, fan_in_span<V, bf16>, fan_in_span<V, f16>},
          {{cast_span<V, float, float>, cast_span<V, float, bf16>, cast_span<V, float, f16>},
           {cast_span<V, bf16, float>, cast_span<V, bf16, bf16>, cast_span<V, bf16, f16>},
           {cast_span<V, f16, float>, cast_span<V, f16, bf16>, cast_span<V, f16, f16>}}};
}

template <class V>
constexpr ElementwiseTable make_elementwise_table() {
  return fill_elementwise<V>(std::make_integer_sequence<int, kUnaryOps>{},
                             std::make_integer_sequence<int, kBinaryOps>{});
}

}  // namespace isotone::cpu
