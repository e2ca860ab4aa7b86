// What the collective operations share. They are recorded by passes/shard.h, never by people. Their attributes:
// "group", the ranks that take part; "me", this worker's place among them; "tag", which makes each call its own.
#pragma once

#include <algorithm>

#include "base/error.h"
#include "ops/functions.h"
#include "ops/transport.h"

namespace isotone::ops {

inline std::int64_t group_size(const Attrs& a) {
  return static_cast<std::int64_t>(a.ints("group").size());
}

inline void check_group(std::string_view op, const Attrs& a) {
  const std::int64_t n = group_size(a), me = a.integer("me");
  static_cast<void>(a.integer("tag"));
  require(n >= 1 && me >= 0 && me < n, "{}: place {} in a group of {} workers", op, me, n);
}

/// Borders among the workers of the group: one more than there are, ascending from 0.
inline void check_borders(std::string_view op, const Attrs& a, std::string_view name) {
  const Ints& borders = a.ints(name);
  require(static_cast<std::int64_t>(borders.size()) == group_size(a) + 1 && borders[0] == 0 &&
              std::is_sorted(borders.begin(), borders.end()) && borders.back() <= (std::int64_t{1} << 40),
          "{}: the {} {} are not {} numbers that ascend from 0", op, name, ir::to_string(borders), group_size(a) + 1);
}

/// Hands the call to the transport; there must be one where there are other workers.
inline void run_collective(std::string_view op, const ReferenceCall& c) {
  require(c.transport != nullptr, "{}: this graph needs {} workers, but nothing connects it to them", op,
          group_size(c.attrs));
  c.transport->run(op, c);
}

/// Likewise; alone in its group, a worker's value is the result.
inline void run_or_copy(std::string_view op, const ReferenceCall& c) {
  if (group_size(c.attrs) > 1) {
    run_collective(op, c);
  } else {
    std::memcpy(c.outputs[0].data, c.inputs[0].data, c.outputs[0].type->bytes());
  }
}

inline Attrs lone_group() {
  return {{"group", Ints{0}}, {"me", std::int64_t{0}}, {"tag", std::int64_t{0}}};
}

/// A collective operation: no gradient (the graph is differentiated before it is shared out), never cut itself.
template <class Op>
struct Collective : NoGradient<Op>, NeverCut {
  static constexpr bool collective = true;
};

}  // namespace isotone::ops
