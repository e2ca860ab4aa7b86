// The attributes of collectives that join nodes of a reduction tree: "tree" (its kind), "length", and "borders", where
// the axis is cut among the workers. A worker's inputs are the values of the nodes that cover its part, in order.
#pragma once

#include "base/partials.h"
#include "ops/support/attributes.h"
#include "ops/support/collective.h"

namespace isotone::ops {

inline ReductionTree tree_of(const Attrs& a) {
  return {static_cast<TreeKind>(a.integer("tree")), a.integer("length")};
}

/// The nodes of worker `place`.
inline std::vector<Span> nodes_of(const Attrs& a, std::int64_t place) {
  const Ints& borders = a.ints("borders");
  const auto i = static_cast<std::size_t>(place);
  return tree_of(a).cover({borders[i], borders[i + 1]});
}

inline void check_tree(std::string_view op, const InTypes& in, const Attrs& a) {
  check_group(op, a);
  require(a.integer("tree") >= 0 && a.integer("tree") <= 2, "{}: no such kind of tree", op);
  check_borders(op, a, "borders");
  const std::int64_t length = a.integer("length");
  require(length >= 1 && a.ints("borders").back() == length && length <= (1 << 24),
          "{}: the borders {} do not end at {}", op, ir::to_string(a.ints("borders")), length);
  const std::vector<std::int64_t> places = tree_of(a).borders();
  for (const std::int64_t b : a.ints("borders")) {
    require(std::binary_search(places.begin(), places.end(), b), "{}: the {} cannot be cut at {}", op,
            tree_of(a).describe(), b);
  }
  require_sizes(op, a.ints("shape"));
  const auto nodes = static_cast<int>(nodes_of(a, a.integer("me")).size());
  require(in.size() == nodes, "{}: {} values for the {} nodes of worker {}", op, in.size(), nodes, a.integer("me"));
  for (int i = 0; i < in.size(); ++i) {
    require(in[i] == (Type{DType::f32, a.ints("shape")}), "{}: node {} is {}, not f32{}", op, i, ir::to_string(in[i]),
            ir::to_string(a.ints("shape")));
  }
}

/// The whole sum where one worker has all nodes.
inline void join_alone(const ReferenceCall& c) {
  Partials<std::vector<float>> partials(tree_of(c.attrs));
  const std::vector<Span> nodes = nodes_of(c.attrs, 0);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto* data = static_cast<const float*>(c.inputs[i].data);
    partials.add(nodes[i], {data, data + c.inputs[i].elements()});
  }
  partials.merge([](std::vector<float> l, const std::vector<float>& r) {
    for (std::size_t i = 0; i < l.size(); ++i) {
      l[i] += r[i];
    }
    return l;
  });
  std::memcpy(c.outputs[0].data, partials.root().data(), c.outputs[0].type->bytes());
}

inline Attrs lone_tree(std::int64_t length, Shape shape) {
  Attrs attrs = lone_group();
  attrs.set("tree", static_cast<std::int64_t>(TreeKind::axis));
  attrs.set("length", length);
  attrs.set("borders", Ints{0, length});
  attrs.set("shape", std::move(shape));
  return attrs;
}

}  // namespace isotone::ops
