// Which dimensions of a call are cut along each axis of a mesh, from where its inputs lie.
#pragma once

#include <optional>

#include "ir/placement.h"
#include "ops/op.h"

namespace isotone::passes {

/// A sum, maximum, ... of which each worker of one mesh axis has only a part.
struct Pending {
  int axis = 0;
  ops::Join join = ops::Join::sum;
  TreeKind tree = TreeKind::axis;
  std::vector<std::int64_t> borders;  // where the joined axis is cut among the workers; for sums
  DType dtype = DType::f32;           // of the whole, to which a sum is rounded once
};

/// Where a value lies; `pending`: its parts are still to be joined along that mesh axis.
struct Lies {
  ir::Type type;  // of the whole
  ir::Placement placement;
  std::optional<Pending> pending;
};

/// The letter that is cut along one mesh axis, at borders in units of the letter; 0: none.
struct Cut {
  char letter = 0;
  std::vector<std::int64_t> borders;
  bool stored = false;
};

struct Choice {
  std::vector<Cut> cuts;  // by mesh axis
  /// A large input is cut where the operation needs it whole: decomposed, it may do without.
  bool blocked = false;
};

/// Weighs every cut that an input suggests by the bytes that other inputs would have to be moved.
Choice choose_cuts(const ops::ShardRule& rule, const std::vector<const Lies*>& inputs, const ir::Types& outputs,
                   const ir::Mesh& mesh);

/// Where a tensor lies whose dimensions have these letters and units.
ir::Placement placement_of(const std::string& letters, const ir::Ints& units, const std::vector<Cut>& cuts);

/// Length of a letter's dimension in its units; 0 where no tensor has it.
std::int64_t letter_length(const ops::ShardRule& rule, const std::vector<const Lies*>& inputs, const ir::Types& outputs,
                           char letter);

/// The tree over a joined letter.
TreeKind tree_kind_of(const ops::ShardRule& rule, char letter);

}  // namespace isotone::passes
