// Comparisons, choices and conversions with integers, in plain loops that the compiler turns into vector code.
#include <limits>
#include <type_traits>

#include "backends/cpu/kernels/elementwise_plain.h"
#include "base/half.h"

namespace isotone::cpu {
namespace {

struct Boolean {
  std::uint8_t v;
};

template <class T>
auto widen(T x) {
  if constexpr (std::is_same_v<T, bf16> || std::is_same_v<T, f16>) {
    return static_cast<float>(x);
  } else if constexpr (std::is_same_v<T, Boolean>) {
    return static_cast<std::uint8_t>(x.v != 0 ? 1 : 0);
  } else {
    return x;
  }
}

template <class T, CompareOp op>
void compare_span(std::uint8_t* y, const void* av, const void* bv, std::int64_t n) {
  const T* a = static_cast<const T*>(av);
  const T* b = static_cast<const T*>(bv);
  for (std::int64_t i = 0; i < n; ++i) {
    const auto l = widen(a[i]);
    const auto r = widen(b[i]);
    y[i] = static_cast<std::uint8_t>(op == CompareOp::equal ? l == r : op == CompareOp::less ? l < r : l <= r);
  }
}

template <class T>
PlainCompare choose_compare(CompareOp op) {
  switch (op) {
    case CompareOp::equal:
      return compare_span<T, CompareOp::equal>;
    case CompareOp::less:
      return compare_span<T, CompareOp::less>;
    case CompareOp::less_equal:
      return compare_span<T, CompareOp::less_equal>;
  }
  return nullptr;
}

template <class To, class From>
To convert(From x) {
  const auto v = widen(x);
  using Wide = std::remove_const_t<decltype(v)>;
  if constexpr (std::is_same_v<To, Boolean>) {
    return {static_cast<std::uint8_t>(v != Wide{0} ? 1 : 0)};
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<Wide>) {
    // The first float at or above 2^(bits) is out of range; the lowest value itself is in range.
    constexpr float low = static_cast<float>(std::numeric_limits<To>::min());
    constexpr float past = static_cast<float>(std::numeric_limits<To>::max() / 2 + 1) * 2.0F;
    return v != v      ? To{0}
           : v < low   ? std::numeric_limits<To>::min()
           : v >= past ? std::numeric_limits<To>::max()
                       : static_cast<To>(v);
  } else if constexpr (std::is_same_v<To, bf16> || std::is_same_v<To, f16>) {
    return To(static_cast<float>(v));
  } else {
    return static_cast<To>(v);
  }
}

template <class To, class From>
void cast_plain_span(void* yv, const void* xv, std::int64_t n) {
  To* y = static_cast<To*>(yv);
  const From* x = static_cast<const From*>(xv);
  for (std::int64_t i = 0; i < n; ++i) {
    y[i] = convert<To>(x[i]);
  }
}

template <class Visit>
auto visit_type(DType t, const Visit& visit) {
  switch (t) {
    case DType::f32:
      return visit(float{});
    case DType::bf16:
      return visit(bf16{});
    case DType::f16:
      return visit(f16{});
    case DType::i8:
      return visit(std::int8_t{});
    case DType::u8:
      return visit(std::uint8_t{});
    case DType::i32:
      return visit(std::int32_t{});
    case DType::i64:
      return visit(std::int64_t{});
    default:
      return visit(Boolean{});
  }
}

template <class Unit>
void where_span(void* yv, const std::uint8_t* condition, const void* av, const void* bv, std::int64_t n) {
  Unit* y = static_cast<Unit*>(yv);
  const Unit* a = static_cast<const Unit*>(av);
  const Unit* b = static_cast<const Unit*>(bv);
  for (std::int64_t i = 0; i < n; ++i) {
    y[i] = condition[i] != 0 ? a[i] : b[i];
  }
}

}  // namespace

PlainCompare plain_compare(CompareOp op, DType t) {
  return visit_type(t, [op](auto zero) { return choose_compare<decltype(zero)>(op); });
}

PlainCast plain_cast(DType to, DType from) {
  return visit_type(to, [from](auto to_zero) {
    return visit_type(
        from, [](auto from_zero) -> PlainCast { return cast_plain_span<decltype(to_zero), decltype(from_zero)>; });
  });
}

void plain_logical(LogicalOp op, std::uint8_t* y, const std::uint8_t* a, const std::uint8_t* b, std::int64_t n) {
  if (op == LogicalOp::logical_and) {
    for (std::int64_t i = 0; i < n; ++i) {
      y[i] = static_cast<std::uint8_t>((a[i] != 0) & (b[i] != 0));
    }
  } else {
    for (std::int64_t i = 0; i < n; ++i) {
      y[i] = static_cast<std::uint8_t>((a[i] | b[i]) != 0);
    }
  }
}

void plain_logical_not(std::uint8_t* y, const std::uint8_t* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    y[i] = static_cast<std::uint8_t>(x[i] == 0);
  }
}

void plain_where(std::size_t bytes, void* y, const std::uint8_t* condition, const void* a, const void* b,
                 std::int64_t n) {
  switch (bytes) {
    case 1:
      return where_span<std::uint8_t>(y, condition, a, b, n);
    case 2:
      return where_span<std::uint16_t>(y, condition, a, b, n);
    case 4:
      return where_span<std::uint32_t>(y, condition, a, b, n);
    default:
      return where_span<std::uint64_t>(y, condition, a, b, n);
  }
}

}  // namespace isotone::cpu
