// What all ranks decide alike: failures, stopping, what rank 0 found.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "dist/communicator.h"

namespace isotone::dist {

/// Calls `body`, which must not talk to other ranks, on every rank. Where it throws an Error on any rank, every rank
/// throws: the first such rank's message, and one that throws the same keeps its own exception.
void together(Communicator& ranks, const std::function<void()>& body, const Site& site = Site::current());

/// Whether it is true on any rank, or on all.
bool any_rank(Communicator& ranks, bool mine, const Site& site = Site::current());
bool every_rank(Communicator& ranks, bool mine, const Site& site = Site::current());

/// Rank 0's text on every rank.
std::string text_of_rank_0(Communicator& ranks, std::string text, const Site& site = Site::current());
/// Every rank's text, by rank.
std::vector<std::string> texts_of_ranks(Communicator& ranks, const std::string& text,
                                        const Site& site = Site::current());

}  // namespace isotone::dist
