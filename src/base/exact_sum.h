// Sums that do not depend on order: every f32 term, or its square, is added exactly to a wide integer and the total is
// rounded once (numerics contract, section 2: loss totals, gradient norms, logged statistics).
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace isotone {

/// An exact sum of at most 2^40 f32 values and squares of f32 values. Subnormal terms count as zero. A NaN, or both
/// infinities, make the sum NaN; one infinity makes it that infinity.
class ExactSum {
 public:
  void add(float term);
  void add_square(float term);
  /// Long spans are shared out over the kernel threads.
  void add(std::span<const float> terms);
  void add_squares(std::span<const float> terms);
  void merge(const ExactSum& other);

  /// The sum rounded to the nearest double, ties to even. An empty or cancelled sum is +0.
  [[nodiscard]] double round() const;
  /// The sum rounded once to the nearest float; what is subnormal in f32 becomes zero.
  [[nodiscard]] float round_to_float() const;

 private:
  // Limb i counts units of 2^(32*i - 384); limbs overlap (carries are left in place) until `pending_` nears 2^30.
  static constexpr int kLimbs = 24;
  static constexpr int kLowest = -384;

  void add_exact(double value);
  void carry();
  void add_serial(const float* terms, std::int64_t n, bool square);
  void add_slowly(const float* terms, std::int64_t n, bool square);
  void add_span(std::span<const float> terms, bool square);
  [[nodiscard]] double rounded(int bits) const;

  std::array<std::int64_t, kLimbs> limbs_{};
  std::int64_t pending_ = 0;
  bool nan_ = false;
  bool plus_infinity_ = false;
  bool minus_infinity_ = false;
};

}  // namespace isotone
