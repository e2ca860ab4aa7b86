// The loss curve as an SVG picture, for people.
#pragma once

#include <string>
#include <vector>

namespace isotone::train {

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;  ///< step, loss; not finite ones are left out
};

/// A line for each curve over common axes with round ticks; `title` on top. Valid SVG whatever the text and the points
/// are.
std::string loss_svg(const std::string& title, const std::vector<Curve>& curves);

}  // namespace isotone::train
