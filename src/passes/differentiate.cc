#include "passes/differentiate.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "ops/functions.h"

namespace isotone::passes {

namespace {

using ir::Node;
using ir::NodePtr;
using ir::Value;
using ir::Values;

/// What one use of a value sends back, with the place of the use in the recording.
struct Contribution {
  std::uint64_t consumer;
  std::size_t input;
  Value gradient;
};

/// Indices, masks and quantised weights carry no gradient: what made them is not looked at.
bool carries(const Value& v) {
  return is_float(v.dtype());
}

/// The nodes between `wrt` and `outputs`, descending by id: those whose gradient matters.
std::vector<Node*> path(const Values& outputs, const std::unordered_set<const Node*>& targets) {
  // An explicit stack: a deep network must not overflow the call stack. A node matters if a target lies below it.
  std::unordered_map<const Node*, bool> matters;
  std::vector<Node*> order;
  std::vector<std::pair<Node*, bool>> stack;
  for (const Value& v : outputs) {
    stack.emplace_back(v.node().get(), false);
  }
  while (!stack.empty()) {
    const auto [node, expanded] = stack.back();
    stack.pop_back();
    if (expanded) {
      bool any = false;
      for (const Value& v : node->inputs) {
        any = any || (v && carries(v) && matters.at(v.node().get()));
      }
      matters[node] = any;
      if (any) {
        order.push_back(node);
      }
      continue;
    }
    if (matters.contains(node)) {
      continue;
    }
    if (targets.contains(node)) {
      matters[node] = true;
      continue;
    }
    matters[node] = false;
    stack.emplace_back(node, true);
    for (const Value& v : node->inputs) {
      if (v && carries(v) && !matters.contains(v.node().get())) {
        stack.emplace_back(v.node().get(), false);
      }
    }
  }
  std::sort(order.begin(), order.end(), [](const Node* a, const Node* b) { return a->id > b->id; });
  return order;
}

/// Stands in for the values of recompute regions by fresh recordings of the same operations.
class Recomputation {
 public:
  Value operator()(const Value& v, int region) {
    if (!v || region == 0 || v.node()->region != region) {
      return v;
    }
    return {clone(v.node()), v.index()};
  }

 private:
  NodePtr clone(const NodePtr& first) {
    std::vector<NodePtr> stack{first};
    while (!stack.empty()) {
      const NodePtr node = stack.back();
      if (clones_.contains(node.get())) {
        stack.pop_back();
        continue;
      }
      bool ready = true;
      for (const Value& v : node->inputs) {
        if (v && v.node()->region == node->region && !clones_.contains(v.node().get())) {
          stack.push_back(v.node());
          ready = false;
        }
      }
      if (!ready) {
        continue;
      }
      Values inputs = node->inputs;
      for (Value& v : inputs) {
        if (v && v.node()->region == node->region) {
          v = {clones_.at(v.node().get()), v.index()};
        }
      }
      const NodePtr copy = ir::record(node->op, node->attrs, std::move(inputs), node->types);
      copy->region = -node->region;  // another region: no pass may merge it with the original
      clones_[node.get()] = copy;
      stack.pop_back();
    }
    return clones_.at(first.get());
  }
  std::unordered_map<const Node*, NodePtr> clones_;
};

Value fold(std::vector<Contribution>& list, const Value& value, bool wide) {
  std::sort(list.begin(), list.end(), [](const Contribution& a, const Contribution& b) {
    return std::tie(a.consumer, a.input) < std::tie(b.consumer, b.input);
  });
  bool any_f32 = false;
  Values gradients;
  for (Contribution& c : list) {
    any_f32 = any_f32 || c.gradient.dtype() == DType::f32;
    gradients.push_back(std::move(c.gradient));
  }
  const DType to = wide && any_f32 ? DType::f32 : value.dtype();
  return gradients.size() == 1 ? ops::cast(gradients[0], to) : ops::fan_in(std::move(gradients), to);
}

}  // namespace

ir::Values differentiate(const ir::Values& outputs, const ir::Values& cotangents, const ir::Values& wrt) {
  std::unordered_set<const Node*> targets;
  for (const Value& v : wrt) {
    targets.insert(v.node().get());
  }
  std::map<std::pair<const Node*, int>, std::vector<Contribution>> pending;
  const auto send = [&](const Value& to, Contribution c) {
    require(c.gradient.shape() == to.shape(), "differentiate: a gradient of shape {} was sent to a value {}",
            ir::to_string(c.gradient.shape()), ir::to_string(to.type()));
    pending[{to.node().get(), to.index()}].push_back(std::move(c));
  };
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (cotangents[i]) {
      // After every recorded use: an output's own cotangent is its last use.
      send(outputs[i], {UINT64_MAX, i, cotangents[i]});
    }
  }
  Recomputation recompute;
  for (Node* node : path(outputs, targets)) {
    const ops::OpDef& def = ops::get(node->op);
    const NodePtr self = node->shared_from_this();
    Values forward, back;
    bool any = false;
    for (std::size_t i = 0; i < node->types.size(); ++i) {
      const Value out(self, static_cast<int>(i));
      const auto found = pending.find({node, static_cast<int>(i)});
      back.push_back(found == pending.end() ? Value() : fold(found->second, out, def.wide_cotangent));
      any = any || back.back();
      forward.push_back(recompute(out, node->region));
    }
    if (!any) {
      continue;
    }
    Values inputs = node->inputs;
    std::vector<bool> wanted;
    for (Value& v : inputs) {
      const bool matters = v && carries(v);
      wanted.push_back(matters);
      v = recompute(v, node->region);
    }
    Values gradients;
    if (def.vjp != nullptr) {
      gradients = def.vjp({inputs, forward, back, node->attrs, wanted});
    } else {
      Values distinct;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (wanted[i] && std::find(distinct.begin(), distinct.end(), inputs[i]) == distinct.end()) {
          distinct.push_back(inputs[i]);
        }
      }
      const Values parts = differentiate(def.decompose(inputs, node->attrs), back, distinct);
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const auto at = std::find(distinct.begin(), distinct.end(), inputs[i]);
        const bool first = std::find(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(i), inputs[i]) ==
                           inputs.begin() + static_cast<std::ptrdiff_t>(i);
        gradients.push_back(wanted[i] && first ? parts[static_cast<std::size_t>(at - distinct.begin())] : Value());
      }
    }
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (gradients[i] && wanted[i]) {
        send(node->inputs[i], {node->id, i, gradients[i]});
      }
    }
  }
  Values result;
  for (const Value& v : wrt) {
    const auto found = pending.find({v.node().get(), v.index()});
    result.push_back(found == pending.end() ? Value() : fold(found->second, v, true));
  }
  return result;
}

}  // namespace isotone::passes
