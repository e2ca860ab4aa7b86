#include "ops/support/contraction.h"

#include "base/error.h"

namespace isotone::ops {

std::int64_t letter_size(const ContractionSpec& spec, char letter, const ir::Shape& left, const ir::Shape& right) {
  const std::size_t i = spec.left.find(letter);
  return i != std::string::npos ? left[i] : right[spec.right.find(letter)];
}

ContractionSpec parse_contraction(const std::string& spec, const ir::Type& left, const ir::Type& right) {
  ContractionSpec s;
  const std::size_t comma = spec.find(','), arrow = spec.find("->");
  require(comma != std::string::npos && arrow != std::string::npos && comma < arrow,
          "contract: spec '{}' must have the form 'ab,cb->ac'", spec);
  s.left = spec.substr(0, comma);
  s.right = spec.substr(comma + 1, arrow - comma - 1);
  s.out = spec.substr(arrow + 2);
  const auto once = [&](const std::string& part) {
    for (std::size_t i = 0; i < part.size(); ++i) {
      require((part[i] >= 'a' && part[i] <= 'z') || (part[i] >= 'A' && part[i] <= 'Z'),
              "contract: spec '{}': '{}' is no letter", spec, part[i]);
      require(part.find(part[i], i + 1) == std::string::npos, "contract: spec '{}' repeats '{}' in one tensor", spec,
              part[i]);
    }
  };
  once(s.left);
  once(s.right);
  once(s.out);
  require(s.left.size() == left.shape.size() && s.right.size() == right.shape.size(),
          "contract: spec '{}' names {} and {} axes, but the tensors are {} and {}", spec, s.left.size(),
          s.right.size(), ir::to_string(left), ir::to_string(right));
  const auto has = [](const std::string& part, char c) { return part.find(c) != std::string::npos; };
  for (const char c : s.left) {
    const bool in_right = has(s.right, c), in_out = has(s.out, c);
    if (in_right) {
      const std::int64_t a = left.shape[s.left.find(c)], b = right.shape[s.right.find(c)];
      require(a == b, "contract: '{}' is {} in {} and {} in {} (spec '{}')", c, a, ir::to_string(left), b,
              ir::to_string(right), spec);
      (in_out ? s.batch : s.reduced) += c;
    } else {
      require(in_out, "contract: '{}' of spec '{}' stands in one input only; sum it first", c, spec);
      s.left_free += c;
    }
  }
  for (const char c : s.right) {
    if (!has(s.left, c)) {
      require(has(s.out, c), "contract: '{}' of spec '{}' stands in one input only; sum it first", c, spec);
      s.right_free += c;
    }
  }
  for (const char c : s.out) {
    require(has(s.left, c) || has(s.right, c), "contract: '{}' of spec '{}' is in no input", c, spec);
  }
  return s;
}

}  // namespace isotone::ops
