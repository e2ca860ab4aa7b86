// Elementwise functions: strides and threads here, arithmetic on floats in the instruction sets' tables, the rest
// (comparisons, choices, integers) in elementwise_plain_scalar.cc, where no rounding is at stake.
#include "backends/cpu/kernels/elementwise.h"

#include <string>

#include "backends/cpu/kernels/elementwise_plain.h"
#include "backends/cpu/kernels/elementwise_table.h"
#include "backends/cpu/kernels/elementwise_walk.h"
#include "base/kernel_log.h"

namespace isotone::cpu {
namespace {

int type_index(DType t, const char* kernel) {
  require(is_float(t), "{} takes f32, bf16 or f16, not {}", kernel, dtype_name(t));
  log_kernel(kernel);
  return static_cast<int>(t);
}

void require_plain(DType t, const char* kernel) {
  require(!is_quantised(t), "{} does not take {}", kernel, dtype_name(t));
  log_kernel(kernel);
}

}  // namespace

void unary(UnaryOp op, DType t, void* y, StridedInput x, std::span<const std::int64_t> shape) {
  const auto f = elementwise_table().unary[static_cast<int>(op)][type_index(t, "unary")];
  walk(make_walk<1>(shape, {x}, {unit_bytes(t)}, unit_bytes(t)), y,
       [f](void* out, const auto& in, std::int64_t n) { f(out, in[0], n); });
}

void binary(BinaryOp op, DType t, void* y, StridedInput a, StridedInput b, std::span<const std::int64_t> shape) {
  const auto f = elementwise_table().binary[static_cast<int>(op)][type_index(t, "binary")];
  walk(make_walk<2>(shape, {a, b}, {unit_bytes(t), unit_bytes(t)}, unit_bytes(t)), y,
       [f](void* out, const auto& in, std::int64_t n) { f(out, in[0], in[1], n); });
}

void clamp(DType t, void* y, StridedInput x, float low, float high, std::span<const std::int64_t> shape) {
  const auto f = elementwise_table().clamp[type_index(t, "clamp")];
  walk(make_walk<1>(shape, {x}, {unit_bytes(t)}, unit_bytes(t)), y,
       [=](void* out, const auto& in, std::int64_t n) { f(out, in[0], low, high, n); });
}

void compare(CompareOp op, DType t, std::uint8_t* y, StridedInput a, StridedInput b,
             std::span<const std::int64_t> shape) {
  require_plain(t, "compare");
  const auto f = plain_compare(op, t);
  walk(make_walk<2>(shape, {a, b}, {unit_bytes(t), unit_bytes(t)}, 1), y,
       [f](void* out, const auto& in, std::int64_t n) { f(static_cast<std::uint8_t*>(out), in[0], in[1], n); });
}

void logical(LogicalOp op, std::uint8_t* y, StridedInput a, StridedInput b, std::span<const std::int64_t> shape) {
  log_kernel("logical");
  walk(make_walk<2>(shape, {a, b}, {1, 1}, 1), y, [op](void* out, const auto& in, std::int64_t n) {
    plain_logical(op, static_cast<std::uint8_t*>(out), static_cast<const std::uint8_t*>(in[0]),
                  static_cast<const std::uint8_t*>(in[1]), n);
  });
}

void logical_not(std::uint8_t* y, StridedInput x, std::span<const std::int64_t> shape) {
  log_kernel("logical_not");
  walk(make_walk<1>(shape, {x}, {1}, 1), y, [](void* out, const auto& in, std::int64_t n) {
    plain_logical_not(static_cast<std::uint8_t*>(out), static_cast<const std::uint8_t*>(in[0]), n);
  });
}

void where(DType t, void* y, StridedInput condition, StridedInput a, StridedInput b,
           std::span<const std::int64_t> shape) {
  require_plain(t, "where");
  const std::size_t bytes = unit_bytes(t);
  walk(make_walk<3>(shape, {condition, a, b}, {1, bytes, bytes}, bytes), y,
       [bytes](void* out, const auto& in, std::int64_t n) {
         plain_where(bytes, out, static_cast<const std::uint8_t*>(in[0]), in[1], in[2], n);
       });
}

void cast(DType to, void* y, DType from, StridedInput x, std::span<const std::int64_t> shape) {
  require(!is_quantised(to) && !is_quantised(from), "cast from {} to {}: quantised types have kernels of their own",
          dtype_name(from), dtype_name(to));
  log_kernel("cast");
  if (to == from) {
    copy(to, y, x, shape);
    return;
  }
  const bool floats = is_float(from) && is_float(to);
  const auto f = floats ? elementwise_table().cast[static_cast<int>(from)][static_cast<int>(to)] : plain_cast(to, from);
  walk(make_walk<1>(shape, {x}, {unit_bytes(from)}, unit_bytes(to)), y,
       [f](void* out, const auto& in, std::int64_t n) { f(out, in[0], n); });
}

void copy(DType t, void* y, StridedInput x, std::span<const std::int64_t> shape) {
  require_plain(t, "copy");
  const std::size_t bytes = unit_bytes(t);
  walk(make_walk<1>(shape, {x}, {bytes}, bytes), y, [bytes](void* out, const auto& in, std::int64_t n) {
    std::memmove(out, in[0], bytes * static_cast<std::size_t>(n));
  });
}

void fan_in(DType t, void* y, std::span<const void* const> inputs, std::int64_t n) {
  require(!inputs.empty(), "fan_in needs at least one input");
  const auto f = elementwise_table().fan_in[type_index(t, "fan_in")];
  parallel_for((n + kSpanGrain - 1) / kSpanGrain, 1, [&](std::int64_t begin, std::int64_t end, int) {
    const std::int64_t last = end * kSpanGrain < n ? end * kSpanGrain : n;
    f(y, inputs.data(), static_cast<std::int64_t>(inputs.size()), begin * kSpanGrain, last - begin * kSpanGrain);
  });
}

}  // namespace isotone::cpu
