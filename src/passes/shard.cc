#include "passes/shard.h"

#include <algorithm>
#include <map>
#include <memory>
#include <unordered_set>

#include "base/error.h"
#include "ops/functions.h"
#include "passes/shard_choice.h"
#include "passes/simplify.h"

namespace isotone::passes {

namespace {

using ir::Ints;
using ir::Placement;
using ir::Type;
using ir::Value;
using ir::ValueId;
using ir::Values;

/// A value as this worker has it: one part, or where a sum is pending the values of the nodes it has.
struct Held : Lies {
  Values parts;
  bool given = false;  // an input of the graph, not an intermediate
  std::map<std::string, Value> moved;
};
using HeldPtr = std::shared_ptr<Held>;

class Sharder {
 public:
  explicit Sharder(const ShardRequest& request)
      : mesh_(request.mesh), rank_(request.rank), at_(mesh_.coordinates(request.rank)) {}

  void run(const ir::Graph& graph, std::vector<HeldPtr>& held) {
    for (const ir::Instruction& i : graph.code) {
      const ir::RegionScope region(i.region != 0 ? i.region : region_);
      step(graph, i, held);
    }
  }

  /// The value at `want`, all joined and rounded.
  Value moved(Held& h, const Placement& want) {
    const std::string key = ir::to_string(want, mesh_);
    if (const auto found = h.moved.find(key); found != h.moved.end()) {
      return found->second;
    }
    Placement now = h.placement;
    Value v = h.pending.has_value() ? join(h, want, now) : h.parts[0];
    for (std::size_t a = 0; a < want.size(); ++a) {  // first what makes it smaller
      if (!now[a].cut() && want[a].cut() && free(now, want[a].dim)) {
        v = cut(v, want[a], a);
        now[a] = want[a];
      }
    }
    for (std::size_t a = 0; a < want.size(); ++a) {
      if (now[a].cut() && now[a] != want[a]) {
        v = gather(v, now[a], a);
        now[a] = {};
      }
    }
    for (std::size_t a = 0; a < want.size(); ++a) {
      if (now[a] != want[a]) {
        v = cut(v, want[a], a);
        now[a] = want[a];
      }
    }
    // A gathered input is not kept: it would lie whole on every worker from its first use to its last.
    if (!h.given) {
      h.moved.emplace(key, v);
    }
    return v;
  }

  [[nodiscard]] const Values& collectives() const { return collectives_; }
  [[nodiscard]] std::vector<Traffic>& traffic() { return traffic_; }
  [[nodiscard]] const std::vector<int>& coordinates() const { return at_; }

 private:
  static bool free(const Placement& now, int dim) {
    for (const ir::AxisPlacement& p : now) {
      if (p.dim == dim) {
        return false;
      }
    }
    return true;
  }

  void step(const ir::Graph& graph, const ir::Instruction& i, std::vector<HeldPtr>& held) {
    const ops::OpDef& def = ops::get(i.op);
    std::vector<const Type*> types;
    std::vector<const Lies*> lie;
    for (const ValueId v : i.inputs) {
      types.push_back(v == ir::kNone ? nullptr : &graph.types[static_cast<std::size_t>(v)]);
      lie.push_back(v == ir::kNone ? nullptr : held[static_cast<std::size_t>(v)].get());
    }
    ir::Types outputs;
    for (const ValueId v : i.outputs) {
      outputs.push_back(graph.types[static_cast<std::size_t>(v)]);
    }
    const ops::ShardRule rule = def.shard(ops::InTypes(types, def.name), outputs, i.attrs);
    const Choice choice = choose_cuts(rule, lie, outputs, mesh_);
    if (choice.blocked && def.decompose != nullptr) {
      expand(graph, i, def, held);
      return;
    }
    compute(i, def, rule, choice, lie, outputs, held);
  }

  void compute(const ir::Instruction& i, const ops::OpDef& def, const ops::ShardRule& rule, const Choice& choice,
               const std::vector<const Lies*>& lie, const ir::Types& outputs, std::vector<HeldPtr>& held) {
    Values inputs;
    for (std::size_t k = 0; k < i.inputs.size(); ++k) {
      if (i.inputs[k] == ir::kNone) {
        inputs.emplace_back();
        continue;
      }
      const Ints units = rule.input_units.empty() ? Ints{} : rule.input_units[k];
      inputs.push_back(
          moved(*held[static_cast<std::size_t>(i.inputs[k])], placement_of(rule.inputs[k], units, choice.cuts)));
    }
    std::vector<HeldPtr> results;
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      auto h = std::make_shared<Held>();
      h->type = outputs[k];
      h->placement =
          placement_of(rule.outputs[k], rule.output_units.empty() ? Ints{} : rule.output_units[k], choice.cuts);
      results.push_back(h);
      held[static_cast<std::size_t>(i.outputs[k])] = h;
    }
    int axis = -1;
    for (std::size_t a = 0; a < choice.cuts.size(); ++a) {
      if (choice.cuts[a].letter != 0 && rule.joined.find(choice.cuts[a].letter) != std::string::npos) {
        axis = static_cast<int>(a);
      }
    }
    const auto part = [&](char letter) -> Span {
      for (std::size_t a = 0; a < choice.cuts.size(); ++a) {
        if (choice.cuts[a].letter == letter) {
          const auto c = static_cast<std::size_t>(at_[a]);
          return {choice.cuts[a].borders[c], choice.cuts[a].borders[c + 1]};
        }
      }
      return {0, letter_length(rule, lie, outputs, letter)};
    };
    const auto total = [&](char letter) { return letter_length(rule, lie, outputs, letter); };
    ir::Types local;
    for (const HeldPtr& h : results) {
      local.push_back(ir::local_type(h->type, h->placement, at_));
    }
    if (axis < 0 || rule.join != ops::Join::sum) {
      const Values values = call(def, i.attrs, outputs, {inputs, i.attrs, local, part, total});
      for (std::size_t k = 0; k < results.size(); ++k) {
        results[k]->parts = {values[k]};
        if (axis >= 0) {
          results[k]->pending = Pending{axis, rule.join, TreeKind::element, {}, outputs[k].dtype};
        }
      }
      return;
    }
    const Cut& cut = choice.cuts[static_cast<std::size_t>(axis)];
    const TreeKind kind = tree_kind_of(rule, cut.letter);
    const Span mine = part(cut.letter);
    for (std::size_t k = 0; k < results.size(); ++k) {
      results[k]->pending = Pending{axis, rule.join, kind, cut.borders, outputs[k].dtype};
      local[k].dtype = DType::f32;  // rounded once, at the root
    }
    for (const Span node : ReductionTree(kind, cut.borders.back()).cover(mine)) {
      Values below;
      for (std::size_t k = 0; k < inputs.size(); ++k) {
        const std::size_t d = rule.inputs[k].find(cut.letter);
        Value v = inputs[k];
        if (v && d != std::string::npos && node != mine) {
          const std::int64_t unit = rule.input_units.empty() ? 1 : rule.input_units[k][d];
          v = ops::slice_axis(v, static_cast<std::int64_t>(d), (node.begin - mine.begin) * unit,
                              (node.end - mine.begin) * unit);
        }
        below.push_back(v);
      }
      const auto node_part = [&](char letter) { return letter == cut.letter ? node : part(letter); };
      const Values values = call(def, wide(i.attrs, below), outputs, {below, i.attrs, local, node_part, total});
      for (std::size_t k = 0; k < results.size(); ++k) {
        results[k]->parts.push_back(values[k]);
      }
    }
  }

  /// Attributes and inputs that make the sum's result f32.
  static ir::Attrs wide(ir::Attrs attrs, Values& inputs) {
    if (attrs.find("dtype") != nullptr) {
      attrs.set("dtype", ir::as_attr(DType::f32));
      return attrs;
    }
    for (Value& v : inputs) {
      v = v && is_float(v.dtype()) ? ops::cast(v, DType::f32) : v;
    }
    return attrs;
  }

  static Values call(const ops::OpDef& def, ir::Attrs attrs, const ir::Types& whole, const ops::LocalCall& local) {
    if (std::all_of(local.outputs.begin(), local.outputs.end(), [](const Type& t) { return t.elements() == 0; }) &&
        whole[0].elements() != 0) {
      Values nothing;  // this worker has no part of it
      for (const Type& t : local.outputs) {
        nothing.push_back(ops::full(t.shape, 0.0, t.dtype));
      }
      return nothing;
    }
    const ir::Attr* shape = attrs.find("shape");
    if (shape != nullptr && std::get<Ints>(*shape) == whole[0].shape) {
      attrs.set("shape", local.outputs[0].shape);
    }
    const Values values = def.local != nullptr
                              ? def.local({local.inputs, attrs, local.outputs, local.part, local.total})
                              : ops::apply(def.name, local.inputs, attrs);
    require(values.size() == local.outputs.size(), "shard: {} gives {} local values instead of {}", def.name,
            values.size(), local.outputs.size());
    for (std::size_t k = 0; k < values.size(); ++k) {
      require(values[k].type() == local.outputs[k], "shard: {} gives {} on a worker where {} is expected", def.name,
              ir::to_string(values[k].type()), ir::to_string(local.outputs[k]));
    }
    return values;
  }

  /// Shares out what the composite is made of instead.
  void expand(const ir::Graph& graph, const ir::Instruction& i, const ops::OpDef& def, std::vector<HeldPtr>& held) {
    Values inputs, stops;
    std::vector<HeldPtr> given;
    for (const ValueId v : i.inputs) {
      if (v == ir::kNone) {
        inputs.emplace_back();
        continue;
      }
      inputs.push_back(ir::leaf(graph.types[static_cast<std::size_t>(v)], nullptr));
      stops.push_back(inputs.back());
      given.push_back(held[static_cast<std::size_t>(v)]);
    }
    const Values made = def.decompose(inputs, i.attrs);
    const ir::Flattened inner = ir::flatten(made, stops);
    std::vector<HeldPtr> inside(inner.graph.types.size());
    for (std::size_t k = 0; k < given.size(); ++k) {
      inside[static_cast<std::size_t>(inner.graph.inputs[k])] = given[k];
    }
    const int saved = region_;
    region_ = i.region != 0 ? i.region : region_;
    run(inner.graph, inside);
    region_ = saved;
    for (std::size_t k = 0; k < i.outputs.size(); ++k) {
      held[static_cast<std::size_t>(i.outputs[k])] = inside[static_cast<std::size_t>(inner.graph.outputs[k])];
    }
  }

  /// The whole of a pending value, or this worker's part of it where `want` cuts it along the same mesh axis. `now`
  /// becomes where the result lies.
  Value join(const Held& h, const Placement& want, Placement& now) {
    const Pending& p = *h.pending;
    const auto a = static_cast<std::size_t>(p.axis);
    const ir::AxisPlacement& goal = want[a];
    if (p.join != ops::Join::sum) {
      note("join_all_reduce", p.axis, h.parts[0].type().bytes() * (group_size(a) - 1), 0);
      return keep(ops::join_all_reduce(h.parts[0], p.join, group(a), at_[a], tag_++));
    }
    const Type part = ir::local_type(h.type, h.placement, at_);
    ir::Attrs attrs{{"group", group(a)},
                    {"me", static_cast<std::int64_t>(at_[a])},
                    {"tag", tag_++},
                    {"tree", static_cast<std::int64_t>(p.tree)},
                    {"length", p.borders.back()},
                    {"borders", p.borders},
                    {"shape", part.shape}};
    const std::size_t bytes = Type{DType::f32, part.shape}.bytes();
    const auto unmerged = static_cast<std::int64_t>(h.parts.empty() ? 0 : h.parts.size() - 1);
    Value v;
    if (goal.cut() && free(now, goal.dim)) {
      attrs.set("dim", static_cast<std::int64_t>(goal.dim));
      attrs.set("cuts", goal.borders);
      note("tree_reduce_scatter", p.axis, bytes * (group_size(a) - 1) / group_size(a), unmerged);
      v = keep(ops::tree_reduce_scatter(h.parts, std::move(attrs)));
      now[a] = goal;
    } else {
      note("tree_all_reduce", p.axis, 2 * bytes * (group_size(a) - 1) / group_size(a), unmerged);
      v = keep(ops::tree_all_reduce(h.parts, std::move(attrs)));
    }
    return ops::cast(v, p.dtype);
  }

  Value cut(const Value& v, const ir::AxisPlacement& p, std::size_t a) const {
    const Span mine = p.part(at_[a]);
    return ops::slice_axis(v, p.dim, mine.begin, mine.end);
  }

  Value gather(const Value& v, const ir::AxisPlacement& p, std::size_t a) {
    note("all_gather", static_cast<int>(a), v.type().bytes() * (group_size(a) - 1), 0);
    return keep(ops::all_gather(v, p.dim, p.borders, group(a), at_[a], tag_++));
  }

  Ints group(std::size_t axis) const {
    const std::vector<int> ranks = mesh_.group(rank_, static_cast<int>(axis));
    return {ranks.begin(), ranks.end()};
  }
  std::size_t group_size(std::size_t axis) const { return static_cast<std::size_t>(mesh_.axes()[axis].size); }

  Value keep(Value v) {
    collectives_.push_back(v);
    return v;
  }
  void note(const char* op, int axis, std::size_t bytes, std::int64_t unmerged) {
    traffic_.push_back({op, axis, static_cast<std::int64_t>(bytes), unmerged});
  }

  const ir::Mesh& mesh_;
  int rank_;
  std::vector<int> at_;
  int region_ = 0;
  std::int64_t tag_ = 0;
  Values collectives_;
  std::vector<Traffic> traffic_;
};

/// Those of `all` that `outputs` do not depend on.
Values unread(const Values& all, const Values& outputs) {
  std::unordered_set<const ir::Node*> seen;
  std::vector<const ir::Node*> stack;
  const auto visit = [&](const Value& v) {
    if (v && seen.insert(v.node().get()).second) {
      stack.push_back(v.node().get());
    }
  };
  for (const Value& v : outputs) {
    visit(v);
  }
  while (!stack.empty()) {
    const ir::Node* node = stack.back();
    stack.pop_back();
    for (const Value& v : node->inputs) {
      visit(v);
    }
  }
  Values out;
  for (const Value& v : all) {
    if (!seen.contains(v.node().get())) {
      out.push_back(v);
    }
  }
  return out;
}

}  // namespace

Sharded shard(const ir::Graph& whole, const ShardRequest& request) {
  // What nobody reads goes first: on the worker's graph it could not be told from what only others read.
  const ir::Graph graph = simplify(whole);
  require(request.inputs.size() == graph.inputs.size() && request.results.size() == graph.outputs.size(),
          "shard: {} inputs and {} results are placed, the graph has {} and {}", request.inputs.size(),
          request.results.size(), graph.inputs.size(), graph.outputs.size());
  Sharder sharder(request);
  std::vector<HeldPtr> held(graph.types.size());
  Values stops;
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    auto h = std::make_shared<Held>();
    h->type = graph.types[static_cast<std::size_t>(graph.inputs[i])];
    ir::check_placement(request.inputs[i], h->type, request.mesh);
    h->placement = request.inputs[i];
    h->given = true;
    stops.push_back(ir::leaf(ir::local_type(h->type, h->placement, sharder.coordinates()), nullptr, true));
    h->parts = {stops.back()};
    held[static_cast<std::size_t>(graph.inputs[i])] = h;
  }
  sharder.run(graph, held);
  Sharded out;
  Values outputs;
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    Held& h = *held[static_cast<std::size_t>(graph.outputs[i])];
    const Placement want = request.results[i].value_or(h.placement);
    ir::check_placement(want, h.type, request.mesh);
    outputs.push_back(sharder.moved(h, want));
    out.results.push_back(want);
  }
  const Values kept = unread(sharder.collectives(), outputs);
  outputs.insert(outputs.end(), kept.begin(), kept.end());
  out.kept = kept.size();
  out.traffic = std::move(sharder.traffic());
  out.graph = ir::flatten(outputs, stops).graph;
  return out;
}

}  // namespace isotone::passes
