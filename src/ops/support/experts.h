// What the operations over experts share. Letters: G grains, T tokens, K choices a token, X experts, E in, O out.
#pragma once

#include "base/error.h"
#include "ops/support/index.h"

namespace isotone::ops {

/// An id in [-1, experts), or an error that names it. -1 names no expert.
inline std::int64_t checked_expert(std::string_view op, std::int64_t id, std::int64_t experts) {
  require(id >= -1 && id < experts, "{}: expert {} is outside [-1, {})", op, id, experts);
  return id;
}

/// Rows [G, T, K, width] with the expert of each, ids [G, T, K].
inline void require_expert_rows(std::string_view op, const Type& rows, const Type& ids) {
  require_float(op, rows);
  require_index(op, ids);
  require(rows.rank() == 4 && ids.rank() == 3 && std::equal(ids.shape.begin(), ids.shape.end(), rows.shape.begin()),
          "{}: takes rows [grain, token, choice, width] and ids [grain, token, choice], got {} and {}", op,
          ir::to_string(rows), ir::to_string(ids));
}

}  // namespace isotone::ops
