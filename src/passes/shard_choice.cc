#include "passes/shard_choice.h"

#include <algorithm>
#include <limits>

namespace isotone::passes {

namespace {

std::int64_t unit_of(const std::vector<ir::Ints>& units, std::size_t tensor, std::size_t dim) {
  return units.empty() || units[tensor].empty() ? 1 : units[tensor][dim];
}

bool joined(const ops::ShardRule& rule, char letter) {
  return rule.joined.find(letter) != std::string::npos;
}

/// Whether a joined axis may be cut at these borders.
bool tree_allows(const ops::ShardRule& rule, const std::vector<const Lies*>& inputs, const ir::Types& outputs,
                 const Cut& cut) {
  if (rule.join != ops::Join::sum) {
    return true;
  }
  // What is summed around it must be one item: parts of an inner sum are not to be added before it is whole.
  const std::size_t at = rule.joined.find(cut.letter);
  for (std::size_t i = 0; i < at; ++i) {
    if (letter_length(rule, inputs, outputs, rule.joined[i]) != 1) {
      return false;
    }
  }
  const std::int64_t n = letter_length(rule, inputs, outputs, cut.letter);
  if (n < 1 || n > (1 << 24)) {  // what the collectives take
    return false;
  }
  const std::vector<std::int64_t> nodes = ReductionTree(tree_kind_of(rule, cut.letter), n).borders();
  return std::all_of(cut.borders.begin(), cut.borders.end(),
                     [&](std::int64_t b) { return std::binary_search(nodes.begin(), nodes.end(), b); });
}

/// The letter and borders that an input's cut along `axis` means, or nothing where it must be whole.
std::optional<Cut> suggested(const ops::ShardRule& rule, std::size_t k, const ir::AxisPlacement& p) {
  const auto dim = static_cast<std::size_t>(p.dim);
  const char letter = rule.inputs[k][dim];
  const std::int64_t unit = unit_of(rule.input_units, k, dim);
  if (letter == '.' || std::count(rule.inputs[k].begin(), rule.inputs[k].end(), letter) != 1) {
    return std::nullopt;
  }
  Cut cut{letter, p.borders, p.stored};
  for (std::int64_t& b : cut.borders) {
    if (b % unit != 0) {
      return std::nullopt;
    }
    b /= unit;
  }
  return cut;
}

bool same(const std::optional<Cut>& a, const Cut& b) {
  return a.has_value() && a->letter == b.letter && a->borders == b.borders;
}

}  // namespace

TreeKind tree_kind_of(const ops::ShardRule& rule, char letter) {
  return rule.joined.back() == letter ? TreeKind::axis : TreeKind::element;
}

std::int64_t letter_length(const ops::ShardRule& rule, const std::vector<const Lies*>& inputs, const ir::Types& outputs,
                           char letter) {
  for (std::size_t k = 0; k < rule.inputs.size(); ++k) {
    const std::size_t d = rule.inputs[k].find(letter);
    if (d != std::string::npos) {
      return inputs[k]->type.shape[d] / unit_of(rule.input_units, k, d);
    }
  }
  for (std::size_t k = 0; k < rule.outputs.size(); ++k) {
    const std::size_t d = rule.outputs[k].find(letter);
    if (d != std::string::npos) {
      return outputs[k].shape[d] / unit_of(rule.output_units, k, d);
    }
  }
  return 0;
}

ir::Placement placement_of(const std::string& letters, const ir::Ints& units, const std::vector<Cut>& cuts) {
  ir::Placement out(cuts.size());
  for (std::size_t a = 0; a < cuts.size(); ++a) {
    const std::size_t dim = cuts[a].letter == 0 ? std::string::npos : letters.find(cuts[a].letter);
    if (dim != std::string::npos) {
      out[a] = {static_cast<int>(dim), cuts[a].borders, cuts[a].stored};
      for (std::int64_t& b : out[a].borders) {
        b *= units.empty() ? 1 : units[dim];
      }
    }
  }
  return out;
}

Choice choose_cuts(const ops::ShardRule& rule, const std::vector<const Lies*>& inputs, const ir::Types& outputs,
                   const ir::Mesh& mesh) {
  Choice choice;
  bool has_joined = false;
  std::size_t written = 0;
  for (const ir::Type& t : outputs) {
    written += t.bytes();
  }
  for (std::size_t a = 0; a < mesh.axes().size(); ++a) {
    std::vector<Cut> candidates;
    const bool shared = std::any_of(inputs.begin(), inputs.end(), [a](const Lies* in) {
      return in != nullptr && in->placement[a].cut() && !in->placement[a].stored;
    });
    std::size_t largest = 0;
    bool largest_blocked = false;
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      if (inputs[k] == nullptr || !inputs[k]->placement[a].cut() || mesh.axes()[a].size == 1) {
        continue;
      }
      if (shared && inputs[k]->placement[a].stored) {
        continue;
      }
      const std::optional<Cut> cut = suggested(rule, k, inputs[k]->placement[a]);
      const bool taken = cut.has_value() && std::any_of(choice.cuts.begin(), choice.cuts.end(),
                                                        [&](const Cut& other) { return other.letter == cut->letter; });
      const bool allowed = cut.has_value() && !taken &&
                           (!joined(rule, cut->letter) || (!has_joined && tree_allows(rule, inputs, outputs, *cut)));
      if (inputs[k]->type.bytes() >= largest) {
        largest = inputs[k]->type.bytes();
        largest_blocked = !cut.has_value();
      }
      if (allowed) {
        candidates.push_back(*cut);
      }
    }
    choice.blocked = choice.blocked || largest_blocked;
    Cut best;
    std::size_t least = std::numeric_limits<std::size_t>::max();
    for (const Cut& cut : candidates) {
      // What lies otherwise is gathered; a join moves the result about twice.
      std::size_t moved = joined(rule, cut.letter) ? 2 * written : 0;
      for (std::size_t k = 0; k < inputs.size(); ++k) {
        if (inputs[k] != nullptr && inputs[k]->placement[a].cut() &&
            !same(suggested(rule, k, inputs[k]->placement[a]), cut)) {
          moved += inputs[k]->type.bytes();
        }
      }
      if (moved < least) {
        least = moved;
        best = cut;
      }
    }
    has_joined = has_joined || (best.letter != 0 && joined(rule, best.letter));
    choice.cuts.push_back(std::move(best));
  }
  return choice;
}

}  // namespace isotone::passes
