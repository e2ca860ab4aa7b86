// Collectives whose results do not show how many ranks took part.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/exact_sum.h"
#include "dist/communicator.h"
#include "dist/partials.h"

namespace isotone::dist {

using Floats = std::vector<float>;
using FloatPartials = Partials<Floats>;
/// The parent's value from its children's; every value has the same length.
using Join = std::function<Floats(Floats left, Floats right)>;

/// left + right, element by element, subnormals flushed: the join of a plain sum.
Floats add_floats(Floats left, Floats right);

/// The value of the whole tree on every rank. Each rank gives the values of the nodes it owns (none, one or several;
/// all ranks' together are the axis). Neighbours join first (distance 1, then 2, 4, ...); what lacks its sibling is
/// handed on unjoined. Any number of ranks.
Floats tree_all_reduce(Communicator& ranks, FloatPartials mine, const Join& join = add_floats);

/// Every rank's message, by rank.
std::vector<Message> all_gather(Communicator& ranks, Message mine);
/// Every rank's floats, one after another by rank; lengths may differ.
Floats all_gather(Communicator& ranks, std::span<const float> mine);
/// The largest of each element over the ranks.
Floats max_all_reduce(Communicator& ranks, Floats mine);
/// The exact sum of all ranks' terms.
ExactSum exact_all_reduce(Communicator& ranks, const ExactSum& mine);

}  // namespace isotone::dist
