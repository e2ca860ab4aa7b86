#include "dist/graph_transport.h"

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/partials.h"
#include "dist/collectives.h"
#include "dist/subgroup.h"

namespace isotone::dist {

namespace {

using ops::Attrs;
using ops::HostTensor;
using ops::Ints;
using ops::ReferenceCall;

std::span<const std::byte> bytes_of(const HostTensor& t) {
  return {static_cast<const std::byte*>(t.data), t.type->bytes()};
}

/// Bytes of one row of dimensions from `dim` on, and how many such rows there are before it.
struct Rows {
  std::size_t count = 1, unit = 1;
  Rows(const ir::Type& type, std::size_t dim) : unit(1) {
    for (std::size_t d = 0; d < type.shape.size(); ++d) {
      (d < dim ? count : unit) *= d == dim ? 1 : static_cast<std::size_t>(type.shape[d]);
    }
    unit = storage_bytes(type.dtype, static_cast<std::int64_t>(unit));
  }
};

void gather(Communicator& ranks, const ReferenceCall& c) {
  const auto dim = static_cast<std::size_t>(c.attrs.integer("dim"));
  const Ints& borders = c.attrs.ints("borders");
  const HostTensor& y = c.outputs[0];
  const std::span<const std::byte> mine = bytes_of(c.inputs[0]);
  const std::vector<Message> parts = all_gather(ranks, Message(mine.begin(), mine.end()));
  const Rows rows(*y.type, dim);
  const std::size_t whole = static_cast<std::size_t>(borders.back()) * rows.unit;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const std::size_t width = static_cast<std::size_t>(borders[p + 1] - borders[p]) * rows.unit;
    require(parts[p].size() == width * rows.count, "all_gather: worker {} of the group sent {} bytes, {} are expected",
            p, parts[p].size(), width * rows.count);
    for (std::size_t r = 0; width > 0 && r < rows.count; ++r) {
      std::memcpy(static_cast<std::byte*>(y.data) + r * whole + static_cast<std::size_t>(borders[p]) * rows.unit,
                  parts[p].data() + r * width, width);
    }
  }
}

Floats reduce(Communicator& ranks, const ReferenceCall& c) {
  const ReductionTree tree(static_cast<TreeKind>(c.attrs.integer("tree")), c.attrs.integer("length"));
  const Ints& borders = c.attrs.ints("borders");
  const auto me = static_cast<std::size_t>(c.attrs.integer("me"));
  FloatPartials mine(tree);
  const std::vector<Span> nodes = tree.cover({borders[me], borders[me + 1]});
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto* data = static_cast<const float*>(c.inputs[i].data);
    mine.add(nodes[i], Floats(data, data + c.inputs[i].elements()));
  }
  return tree_all_reduce(ranks, std::move(mine));
}

void reduce_scatter(Communicator& ranks, const ReferenceCall& c) {
  const auto dim = static_cast<std::size_t>(c.attrs.integer("dim"));
  const auto me = static_cast<std::size_t>(c.attrs.integer("me"));
  const Ints& cuts = c.attrs.ints("cuts");
  const ir::Type whole{DType::f32, c.attrs.ints("shape")};
  const Floats all = reduce(ranks, c);
  const Rows rows(whole, dim);
  const std::size_t unit = rows.unit / sizeof(float), stride = static_cast<std::size_t>(cuts.back()) * unit;
  const std::size_t width = static_cast<std::size_t>(cuts[me + 1] - cuts[me]) * unit;
  for (std::size_t r = 0; width > 0 && r < rows.count; ++r) {
    std::memcpy(static_cast<float*>(c.outputs[0].data) + r * width,
                all.data() + r * stride + static_cast<std::size_t>(cuts[me]) * unit, width * sizeof(float));
  }
}

void join(Communicator& ranks, const ReferenceCall& c) {
  const auto how = static_cast<ops::Join>(c.attrs.integer("join"));
  const std::span<const std::byte> mine = bytes_of(c.inputs[0]);
  const std::vector<Message> parts = all_gather(ranks, Message(mine.begin(), mine.end()));
  const HostTensor& y = c.outputs[0];
  auto* out = static_cast<std::byte*>(y.data);
  std::memcpy(out, parts[0].data(), mine.size());
  for (std::size_t p = 1; p < parts.size(); ++p) {
    require(parts[p].size() == mine.size(), "join_all_reduce: worker {} of the group sent {} bytes, {} are expected", p,
            parts[p].size(), mine.size());
    if (how == ops::Join::select) {
      for (std::size_t i = 0; i < mine.size(); ++i) {
        out[i] |= parts[p][i];
      }
      continue;
    }
    Message other = parts[p];
    const HostTensor x{y.type, other.data()};
    for (std::int64_t i = 0; i < y.elements(); ++i) {
      const float a = y.get(i), b = x.get(i);
      const bool take = std::isnan(b) || (how == ops::Join::maximum ? b > a : b < a);
      if (take && !std::isnan(a)) {
        y.set(i, b);
      }
    }
  }
}

/// The same on every worker of the group.
std::string describe(std::string_view op, const ReferenceCall& c) {
  const bool scattered = op == "tree_reduce_scatter";  // each worker's output is its own
  return fmt::format("a graph's {} {}", op,
                     to_string(scattered ? ir::Type{DType::f32, c.attrs.ints("shape")} : *c.outputs[0].type));
}

class GraphTransport : public ops::Transport {
 public:
  explicit GraphTransport(Communicator& world) : world_(world) {}

  void run(std::string_view op, const ReferenceCall& call) override {
    std::vector<int> members;
    for (const std::int64_t r : call.attrs.ints("group")) {
      members.push_back(static_cast<int>(r));
    }
    Subgroup ranks(world_, members);
    const Call doing(ranks, describe(op, call), Site::current(), Within::itself);
    if (op == "all_gather") {
      gather(ranks, call);
    } else if (op == "tree_all_reduce") {
      const Floats all = reduce(ranks, call);
      std::memcpy(call.outputs[0].data, all.data(), call.outputs[0].type->bytes());
    } else if (op == "tree_reduce_scatter") {
      reduce_scatter(ranks, call);
    } else if (op == "join_all_reduce") {
      join(ranks, call);
    } else {
      fail("there is no collective '{}'", op);
    }
  }

 private:
  Communicator& world_;
};

}  // namespace

std::shared_ptr<ops::Transport> graph_transport(Communicator& world) {
  return std::make_shared<GraphTransport>(world);
}

}  // namespace isotone::dist
