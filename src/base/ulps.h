// How far two floating-point numbers of one format lie apart, in units in the last place.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/dtype.h"

namespace isotone {

namespace detail {
/// Bits as an integer that grows with the number: -0 and +0 are neighbours, so that every change of bits shows.
constexpr std::int64_t ordered_bits(std::uint64_t bits, unsigned width) {
  const std::uint64_t sign = std::uint64_t{1} << (width - 1);
  return (bits & sign) != 0 ? -static_cast<std::int64_t>(bits & (sign - 1)) - 1 : static_cast<std::int64_t>(bits);
}
}  // namespace detail

/// Numbers of the format between `a` and `b`, elements of a float `dtype` by their bytes; 0 only where all bits are
/// equal. NaNs lie beyond the infinities.
inline std::uint64_t ulps_apart(DType dtype, const std::byte* a, const std::byte* b) {
  const std::size_t bytes = unit_bytes(dtype);
  std::uint32_t x = 0, y = 0;  // little-endian
  std::memcpy(&x, a, bytes);
  std::memcpy(&y, b, bytes);
  const auto width = static_cast<unsigned>(8 * bytes);
  const std::int64_t d = detail::ordered_bits(x, width) - detail::ordered_bits(y, width);
  return static_cast<std::uint64_t>(d < 0 ? -d : d);
}

}  // namespace isotone
