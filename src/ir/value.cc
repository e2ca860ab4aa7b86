#include "ir/value.h"

#include <atomic>

namespace isotone::ir {

namespace {

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> counter{1};
  return counter.fetch_add(1, std::memory_order_relaxed);
}

int& current_region() {
  thread_local int region = 0;
  return region;
}

}  // namespace

std::int64_t Value::dim(std::int64_t axis) const {
  return shape()[static_cast<std::size_t>(normal_axis(axis, rank(), "dim"))];
}

const std::shared_ptr<Storage>& Value::storage() const {
  static const std::shared_ptr<Storage> none;
  return node_ == nullptr || node_->storage.empty() ? none : node_->storage[static_cast<std::size_t>(index_)];
}

Node::~Node() {
  // Inputs go to a list that the outermost destructor on this thread empties: a nested one only adds to it, so the
  // depth stays at two whatever the graph looks like.
  thread_local Values* pending = nullptr;
  const auto release = [](Values& from, Values& to) {
    for (Value& v : from) {
      if (v) {
        to.push_back(std::move(v));
      }
    }
    from.clear();
  };
  if (pending != nullptr) {
    release(inputs, *pending);
    return;
  }
  Values list;
  pending = &list;
  release(inputs, list);
  while (!list.empty()) {
    const Value last = std::move(list.back());
    list.pop_back();
  }
  pending = nullptr;
}

NodePtr record(std::string_view op, Attrs attrs, Values inputs, Types types) {
  auto node = std::make_shared<Node>();
  node->id = next_id();
  node->op = op;
  node->attrs = std::move(attrs);
  node->inputs = std::move(inputs);
  node->types = std::move(types);
  node->region = current_region();
  for (const Value& v : node->inputs) {
    node->traced = node->traced || (v && v.node()->traced);
  }
  return node;
}

Value leaf(Type type, std::shared_ptr<Storage> storage, bool traced) {
  auto node = std::make_shared<Node>();
  node->id = next_id();
  node->op = kLeaf;
  node->types.push_back(std::move(type));
  if (storage != nullptr) {
    node->storage.push_back(std::move(storage));
  }
  node->traced = traced;
  return {node, 0};
}

RegionScope::RegionScope() : saved_(current_region()) {
  static std::atomic<int> counter{1};
  current_region() = counter.fetch_add(1, std::memory_order_relaxed);
}

RegionScope::RegionScope(int region) : saved_(current_region()) {
  current_region() = region;
}

RegionScope::~RegionScope() {
  current_region() = saved_;
}

}  // namespace isotone::ir
