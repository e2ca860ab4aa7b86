#include "nn/rotary.h"

#include "base/fmath.h"

namespace isotone::nn {

RotaryTable rotary_table(std::int64_t positions, std::int64_t width, double theta) {
  const std::int64_t half = width / 2;
  std::vector<float> c(static_cast<std::size_t>(positions * half)), s(c.size());
  std::vector<double> frequency(static_cast<std::size_t>(half));
  for (std::int64_t i = 0; i < half; ++i) {
    frequency[static_cast<std::size_t>(i)] =
        fmath64::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(width));
  }
  for (std::int64_t p = 0; p < positions; ++p) {
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(p) * frequency[static_cast<std::size_t>(i)];
      const auto at = static_cast<std::size_t>(p * half + i);
      c[at] = static_cast<float>(fmath64::cos(angle));
      s[at] = static_cast<float>(fmath64::sin(angle));
    }
  }
  return {Tensor::from(c, {positions, half}), Tensor::from(s, {positions, half})};
}

}  // namespace isotone::nn
