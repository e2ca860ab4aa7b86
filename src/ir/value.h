// The recorded graph: values and the nodes that make them. Calling an operation records a node; nothing is computed
// here.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/attrs.h"
#include "ir/type.h"

namespace isotone::ir {

struct Node;
using NodePtr = std::shared_ptr<Node>;

/// Memory that holds a computed value. What it is belongs to the device; here it is only kept alive.
class Storage {
 public:
  Storage() = default;
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  virtual ~Storage() = default;
};

/// Output `index` of `node`. Cheap to copy. An empty Value (no node) stands for "none", as an optional input does.
class Value {
 public:
  Value() = default;
  Value(NodePtr node, int index) : node_(std::move(node)), index_(index) {}

  explicit operator bool() const { return node_ != nullptr; }
  [[nodiscard]] const NodePtr& node() const { return node_; }
  [[nodiscard]] int index() const { return index_; }
  [[nodiscard]] const Type& type() const;
  [[nodiscard]] const Shape& shape() const { return type().shape; }
  [[nodiscard]] DType dtype() const { return type().dtype; }
  [[nodiscard]] int rank() const { return type().rank(); }
  /// Size of dimension `axis`, counted from the end where negative.
  [[nodiscard]] std::int64_t dim(std::int64_t axis) const;
  /// The computed memory, or null while lazy.
  [[nodiscard]] const std::shared_ptr<Storage>& storage() const;
  friend bool operator==(const Value&, const Value&) = default;

 private:
  NodePtr node_;
  int index_ = 0;
};

using Values = std::vector<Value>;
using Types = std::vector<Type>;

/// The name of the node kind that has no inputs and whose memory is given: parameters, data, placeholders of a trace.
inline constexpr std::string_view kLeaf = "leaf";

struct Node : std::enable_shared_from_this<Node> {
  /// Grows with every recording on any thread, so ascending ids are a topological order and the order of recording.
  std::uint64_t id = 0;
  /// Name of the operation; points at static storage (the table of operations) or is kLeaf.
  std::string_view op;
  Attrs attrs;
  Values inputs;
  Types types;
  /// One per output once computed; empty before.
  std::vector<std::shared_ptr<Storage>> storage;
  /// Nonzero inside `recompute`: nodes of one region are recomputed together in the backward pass.
  int region = 0;
  /// True where the node depends on the argument of a function being traced; such nodes keep their inputs after eval.
  bool traced = false;

  Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  ~Node();  // iterative: a long chain of nodes must not overflow the stack
};

inline const Type& Value::type() const {
  return node_->types[static_cast<std::size_t>(index_)];
}

/// Records a node with checked types (operations call this through ops::apply).
NodePtr record(std::string_view op, Attrs attrs, Values inputs, Types types);

/// A leaf with given memory (or none: a placeholder).
Value leaf(Type type, std::shared_ptr<Storage> storage, bool traced = false);

/// While alive, nodes recorded on this thread belong to a new recompute region, or to the one given.
class RegionScope {
 public:
  RegionScope();
  explicit RegionScope(int region);
  ~RegionScope();
  RegionScope(const RegionScope&) = delete;
  RegionScope& operator=(const RegionScope&) = delete;

 private:
  int saved_;
};

}  // namespace isotone::ir
