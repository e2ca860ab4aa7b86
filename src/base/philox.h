// Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011): random numbers as a
// function of a key and coordinates, never of how often it was called (numerics contract, section 10).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/fmath.h"
#include "base/hash.h"

namespace isotone {

/// The generator of one op: its key comes from the seed and the op's logical name.
class Philox {
 public:
  Philox(std::uint64_t seed, std::string_view name) : Philox(xxh3_64(name, seed)) {}
  explicit Philox(std::uint64_t key) : key_{static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)} {}

  using Counter = std::array<std::uint32_t, 4>;

  /// The four 32-bit numbers of one counter.
  [[nodiscard]] Counter block(Counter c) const {
    std::uint32_t k0 = key_[0];
    std::uint32_t k1 = key_[1];
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * c[0];
      const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * c[2];
      c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
           static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
      k0 += 0x9E3779B9U;
      k1 += 0xBB67AE85U;
    }
    return c;
  }

  /// The 32 bits of element `index` of a tensor drawn at coordinates (a, b): word index mod 4 of block index / 4, whose
  /// counter is {index/4 low, index/4 high, a, b}.
  [[nodiscard]] std::uint32_t bits(std::uint64_t index, std::uint32_t a = 0, std::uint32_t b = 0) const {
    return block({static_cast<std::uint32_t>(index >> 2), static_cast<std::uint32_t>(index >> 34), a, b})[index & 3U];
  }

  /// Uniform in [0, 1): the top 24 bits.
  [[nodiscard]] float uniform(std::uint64_t index, std::uint32_t a = 0, std::uint32_t b = 0) const {
    return to_uniform(bits(index, a, b));
  }

  /// Standard normal by Box and Muller: elements 2i and 2i+1 are the cosine and sine of one pair of uniforms.
  [[nodiscard]] float normal(std::uint64_t index, std::uint32_t a = 0, std::uint32_t b = 0) const {
    const std::uint64_t first = index & ~std::uint64_t{1};
    const Counter c = block({static_cast<std::uint32_t>(first >> 2), static_cast<std::uint32_t>(first >> 34), a, b});
    const std::uint32_t at = static_cast<std::uint32_t>(first & 3U);
    // 1 - u is in (0, 1], so its logarithm is finite.
    const float radius = __builtin_sqrtf(-2.0F * fmath::log(1.0F - to_uniform(c[at])));
    const float angle = 6.28318548F * to_uniform(c[at + 1]);
    return radius * ((index & 1U) == 0 ? fmath::cos(angle) : fmath::sin(angle));
  }

  /// True with probability p (in steps of 2^-24).
  [[nodiscard]] bool bernoulli(float p, std::uint64_t index, std::uint32_t a = 0, std::uint32_t b = 0) const {
    return uniform(index, a, b) < p;
  }

  static float to_uniform(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24F; }

 private:
  std::array<std::uint32_t, 2> key_;
};

}  // namespace isotone
