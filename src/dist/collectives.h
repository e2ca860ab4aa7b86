// Collectives whose results do not show how many ranks took part.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/exact_sum.h"
#include "base/partials.h"
#include "dist/communicator.h"

namespace isotone::dist {

using Floats = std::vector<float>;
using FloatPartials = Partials<Floats>;
/// The parent's value from its children's; every value has the same length.
using Join = std::function<Floats(Floats left, Floats right)>;

/// left + right, element by element, subnormals flushed: the join of a plain sum.
Floats add_floats(Floats left, Floats right);

/// The value of the whole tree on every rank. Each rank gives the values of the nodes it owns (none, one or several;
/// all ranks' together are the axis). Neighbours join first (distance 1, then 2, 4, ...); what lacks its sibling is
/// handed on unjoined. Any number of ranks. For small values and joins of every kind; large sums have their own way
/// (sliced_collectives.h).
Floats tree_all_reduce(Communicator& ranks, FloatPartials mine, const Join& join = add_floats,
                       const Site& site = Site::current());

/// The root's message on every rank; the others' is not looked at.
Message broadcast(Communicator& ranks, int root, Message message, const Site& site = Site::current());
/// Returns when every rank has called it.
void barrier(Communicator& ranks, const Site& site = Site::current());

/// Every rank's message, by rank. Doubling (Bruck et al., 1997), any number of ranks, any lengths.
std::vector<Message> all_gather(Communicator& ranks, Message mine, const Site& site = Site::current());
/// Every rank's floats, one after another by rank; lengths may differ.
Floats all_gather(Communicator& ranks, std::span<const float> mine, const Site& site = Site::current());
/// to_each[r] goes to rank r; result[r] came from rank r. Lengths may differ, and be 0.
std::vector<Message> all_to_all(Communicator& ranks, std::vector<Message> to_each, const Site& site = Site::current());

/// The largest of each element over the ranks.
Floats max_all_reduce(Communicator& ranks, Floats mine, const Site& site = Site::current());
/// The exact sums of all ranks' terms, each element on its own.
std::vector<ExactSum> exact_all_reduce(Communicator& ranks, std::vector<ExactSum> mine,
                                       const Site& site = Site::current());
ExactSum exact_all_reduce(Communicator& ranks, const ExactSum& mine, const Site& site = Site::current());

}  // namespace isotone::dist
