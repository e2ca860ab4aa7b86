// How a contraction's spec ("gti,oi->gto") is read: which letters are batch, free or reduced, and in which order.
#pragma once

#include <string>

#include "ir/value.h"

namespace isotone::ops {

/// A parsed spec. Letters name dimensions; a letter in both inputs and the output is batch, in both inputs only is
/// reduced (in the left input's order: the last one by the axis tree, the others around it by element trees), in one
/// input and the output is free. A letter in one input only is an error: sum it first.
struct ContractionSpec {
  std::string left, right, out;
  std::string batch, left_free, right_free, reduced;
};

/// Reads and checks a spec against the shapes; errors name the letter and both shapes.
ContractionSpec parse_contraction(const std::string& spec, const ir::Type& left, const ir::Type& right);

/// Size of `letter` in this contraction.
std::int64_t letter_size(const ContractionSpec& spec, char letter, const ir::Shape& left, const ir::Shape& right);

}  // namespace isotone::ops
