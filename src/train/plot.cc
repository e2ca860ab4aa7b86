#include "train/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace isotone::train {

namespace {

constexpr double kWidth = 760, kHeight = 420, kLeft = 64, kRight = 20, kTop = 44, kBottom = 48;

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '"' ? "&quot;" : std::string(1, c);
  }
  return out;
}

struct Axis {
  double low = 0.0, high = 1.0, tick = 0.2;

  /// Ends on round numbers: 1, 2 or 5 times a power of ten.
  static Axis around(double low, double high) {
    if (!(high > low)) {
      low -= 0.5;
      high += 0.5;
    }
    const double raw = (high - low) / 5.0;
    const double power = std::pow(10.0, std::floor(std::log10(raw)));
    const double unit = raw / power;
    Axis a;
    a.tick = power * (unit < 1.5 ? 1.0 : unit < 3.5 ? 2.0 : unit < 7.5 ? 5.0 : 10.0);
    a.low = std::floor(low / a.tick) * a.tick;
    a.high = std::ceil(high / a.tick) * a.tick;
    return a;
  }
  [[nodiscard]] double share(double v) const { return (v - low) / (high - low); }
};

}  // namespace

std::string loss_svg(const std::string& title, const std::vector<Curve>& curves) {
  double x0 = INFINITY, x1 = -INFINITY, y0 = INFINITY, y1 = -INFINITY;
  for (const Curve& c : curves) {
    for (const auto& [x, y] : c.points) {
      if (std::isfinite(x) && std::isfinite(y)) {
        x0 = std::min(x0, x);
        x1 = std::max(x1, x);
        y0 = std::min(y0, y);
        y1 = std::max(y1, y);
      }
    }
  }
  const bool any = x0 <= x1;
  const Axis ax = Axis::around(any ? x0 : 0.0, any ? x1 : 1.0), ay = Axis::around(any ? y0 : 0.0, any ? y1 : 1.0);
  const auto px = [&](double x) { return kLeft + ax.share(x) * (kWidth - kLeft - kRight); };
  const auto py = [&](double y) { return kHeight - kBottom - ay.share(y) * (kHeight - kTop - kBottom); };
  std::string s = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"{}\" y=\"24\" font-size=\"15\">{}</text>\n",
      kWidth, kHeight, kLeft, escaped(title));
  for (double y = ay.low; y <= ay.high + ay.tick / 2; y += ay.tick) {
    s += fmt::format(
        "<path d=\"M{:.1f} {:.1f}H{:.1f}\" stroke=\"#ddd\"/><text x=\"{:.1f}\" y=\"{:.1f}\" "
        "text-anchor=\"end\">{:.4g}</text>\n",
        kLeft, py(y), kWidth - kRight, kLeft - 8, py(y) + 4, std::abs(y) < ay.tick / 1e6 ? 0.0 : y);
  }
  for (double x = ax.low; x <= ax.high + ax.tick / 2; x += ax.tick) {
    s += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{:.6g}</text>\n", px(x),
                     kHeight - kBottom + 18, x);
  }
  s += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">step</text>\n",
                   (kLeft + kWidth - kRight) / 2, kHeight - 10);
  const char* const colours[] = {"#1f6fb4", "#d1495b", "#2e8b57", "#8a5fbf"};
  double legend = kLeft + 8;
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const char* colour = colours[i % 4];
    std::string path;
    for (const auto& [x, y] : curves[i].points) {
      if (std::isfinite(x) && std::isfinite(y)) {
        path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", px(x), py(y));
      }
    }
    if (!path.empty()) {
      s += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\"/>\n", path, colour);
    }
    s += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" fill=\"{}\">{}</text>\n", legend, kTop - 4, colour,
                     escaped(curves[i].name));
    legend += 24 + 8 * static_cast<double>(curves[i].name.size());
  }
  return s + "</svg>\n";
}

}  // namespace isotone::train
