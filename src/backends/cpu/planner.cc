#include "backends/cpu/planner.h"

#include <cstdlib>

#include "backends/cpu/kernels/elementwise.h"
#include "base/error.h"
#include "base/kernel_log.h"
#include "ops/op.h"
#include "passes/plan_memory.h"

namespace isotone::cpu {

bool Arg::contiguous() const {
  std::int64_t expected = 1;
  for (std::size_t i = type.shape.size(); i-- > 0;) {
    if (type.shape[i] != 1 && strides[i] != expected) {
      return type.elements() == 0;
    }
    expected *= type.shape[i];
  }
  return true;
}

namespace {

Arg contiguous_arg(int root, ir::Type type) {
  Arg a;
  a.root = root;
  a.strides = ir::contiguous_strides(type.shape);
  a.type = std::move(type);
  return a;
}

}  // namespace

Planner::Planner(const ir::Graph& graph, const device::CompileOptions& options)
    : graph_(graph),
      transport_(options.transport),
      last_uses_(ir::last_uses(graph)),
      is_output_(graph.types.size(), false),
      values_(graph.types.size()) {
  for (const ir::ValueId v : graph.outputs) {
    is_output_[static_cast<std::size_t>(v)] = true;
  }
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    const ir::ValueId v = graph.inputs[i];
    const bool donated = i < options.donated.size() && options.donated[i];
    const ir::Type& type = graph.types[static_cast<std::size_t>(v)];
    const int root = add_root(donated ? Kind::donated_input : Kind::input, type.bytes(), -1, -1);
    place(v, contiguous_arg(root, type));
  }
}

int Planner::add_root(Kind kind, std::size_t bytes, int first, int last) {
  roots_.push_back({kind, bytes, first, last});
  return static_cast<int>(roots_.size()) - 1;
}

void Planner::place(ir::ValueId v, Arg arg) {
  Root& root = roots_[static_cast<std::size_t>(arg.root)];
  root.last = std::max(root.last, last_uses_[static_cast<std::size_t>(v)]);
  value(v) = std::move(arg);
}

int profile_level() {
  const char* flag = std::getenv("ISOTONE_PROFILE");
  return flag == nullptr ? 0 : std::atoi(flag);
}

namespace {

std::string with_types(const ir::Graph& graph, const ir::Instruction& i) {
  std::string out(i.op);
  out += i.op == "contract" ? " " + i.attrs.text("spec") : "";
  for (const ir::ValueId v : i.inputs) {
    out += v < 0 ? " -" : " " + ir::to_string(graph.types[static_cast<std::size_t>(v)]);
  }
  return out;
}

}  // namespace

Arg Planner::contiguous_copy(const Arg& from, int now) {
  const Arg to = contiguous_arg(add_root(Kind::arena, from.type.bytes(), now, now), from.type);
  steps_.push_back({"copy", [from, to](const Frame& f) {
                      log_kernel("copy");
                      copy_strided(from, f.ptr<std::byte>(from), f.ptr<std::byte>(to));
                    }});
  return to;
}

Arg Lowering::in(int k) {
  return has(k) ? planner_.value(i_.inputs[static_cast<std::size_t>(k)]) : Arg{};
}

Arg Lowering::dense(int k) {
  const Arg a = in(k);
  return !a || a.contiguous() ? a : planner_.contiguous_copy(a, index_);
}

Arg Lowering::out(int k) {
  const ir::ValueId v = i_.outputs[static_cast<std::size_t>(k)];
  const ir::Type& type = planner_.graph_.types[static_cast<std::size_t>(v)];
  const auto kind = planner_.is_output_[static_cast<std::size_t>(v)] ? Planner::Kind::output : Planner::Kind::arena;
  // A value that nobody reads still needs memory while it is written.
  planner_.place(v, contiguous_arg(planner_.add_root(kind, type.bytes(), index_, index_), type));
  return planner_.value(v);
}

bool Lowering::may_overwrite(int k, int j) {
  const ir::ValueId v = i_.outputs[static_cast<std::size_t>(k)];
  const ir::Type& type = planner_.graph_.types[static_cast<std::size_t>(v)];
  const Arg from = in(j);
  const Planner::Root& root = planner_.roots_[static_cast<std::size_t>(from.root)];
  const bool mine = root.kind == Planner::Kind::donated_input ||
                    (root.kind == Planner::Kind::arena && !planner_.is_output_[static_cast<std::size_t>(v)]);
  bool read_elsewhere = false;
  for (int other = 0; other < inputs(); ++other) {
    read_elsewhere = read_elsewhere || (other != j && has(other) && in(other).root == from.root);
  }
  // The whole root must be dead after this step, and be exactly the result's size, as a donated input that becomes a
  // result must; a part of it that is repeated along an axis would be overwritten while it is still read.
  return mine && root.last == index_ && !read_elsewhere && from.contiguous() && from.byte_offset == 0 &&
         root.bytes == type.bytes() && from.elements() == type.elements();
}

Arg Lowering::out_over(int k, int j) {
  if (!may_overwrite(k, j)) {
    return out(k);
  }
  const ir::ValueId v = i_.outputs[static_cast<std::size_t>(k)];
  planner_.place(v, contiguous_arg(in(j).root, planner_.graph_.types[static_cast<std::size_t>(v)]));
  return planner_.value(v);
}

void Lowering::alias(int k, int j, std::int64_t element_offset, std::vector<std::int64_t> strides) {
  const ir::ValueId v = i_.outputs[static_cast<std::size_t>(k)];
  Arg a = in(j);
  a.type = planner_.graph_.types[static_cast<std::size_t>(v)];
  a.byte_offset += element_offset * static_cast<std::int64_t>(unit_bytes(a.type.dtype));
  a.strides = std::move(strides);
  planner_.place(v, std::move(a));
}

std::shared_ptr<ops::Transport> Lowering::transport() const {
  return planner_.transport_;
}

Arg Lowering::scratch(DType dtype, std::int64_t elements) {
  const ir::Type type{dtype, {elements}};
  return contiguous_arg(planner_.add_root(Planner::Kind::arena, type.bytes(), index_, index_), type);
}

Plan Planner::plan() {
  const bool types = profile_level() >= 2;
  for (std::size_t n = 0; n < graph_.code.size(); ++n) {
    const ir::Instruction& i = graph_.code[n];
    Lowering l(*this, i, static_cast<int>(n));
    const Kernel* kernel = find_kernel(graph_, i);
    Step step = kernel != nullptr ? kernel->lower(l) : lower_reference(l);
    if (step) {
      steps_.push_back({types ? with_types(graph_, i) : std::string(i.op), std::move(step)});
    }
  }
  Plan plan;
  const int end = static_cast<int>(graph_.code.size());
  for (const ir::ValueId v : graph_.outputs) {
    const Arg a = value(v);
    const Root& root = roots_[static_cast<std::size_t>(a.root)];
    const bool whole = a.contiguous() && a.byte_offset == 0 && root.bytes == a.type.bytes();
    if (whole && root.kind != Kind::arena) {
      plan.results.push_back(a.root);
      continue;
    }
    const Arg copy = contiguous_arg(add_root(Kind::output, a.type.bytes(), end, end), a.type);
    steps_.push_back(
        {"copy", [a, copy](const Frame& f) { copy_strided(a, f.ptr<std::byte>(a), f.ptr<std::byte>(copy)); }});
    plan.results.push_back(copy.root);
  }
  std::vector<passes::Lifetime> lifetimes;
  std::vector<int> owners;
  for (std::size_t r = 0; r < roots_.size(); ++r) {
    const Root& root = roots_[r];
    switch (root.kind) {
      case Kind::arena:
        lifetimes.push_back({root.bytes, root.first, std::max(root.first, root.last)});
        owners.push_back(static_cast<int>(r));
        plan.memory.unplanned += root.bytes;
        break;
      case Kind::output:
        plan.output_roots.emplace_back(static_cast<int>(r), root.bytes);
        plan.memory.outputs += root.bytes;
        break;
      default:
        plan.donated.push_back(root.kind == Kind::donated_input);
        plan.input_roots.push_back(static_cast<int>(r));  // inputs come first and in order
        plan.memory.inputs += root.bytes;
    }
  }
  const passes::MemoryPlan placed = passes::plan_memory(lifetimes);
  for (std::size_t i = 0; i < owners.size(); ++i) {
    plan.arena_roots.emplace_back(owners[i], placed.offsets[i]);
  }
  plan.memory.arena = placed.arena_bytes;
  plan.root_count = roots_.size();
  plan.steps = std::move(steps_);
  return plan;
}

Step lower_reference(Lowering& l) {
  const ops::OpDef& def = ops::get(l.instruction().op);
  require(def.reference != nullptr, "cpu: '{}' is a composite without a kernel and should have been decomposed",
          def.name);
  std::vector<Arg> in, out;
  for (int k = 0; k < l.inputs(); ++k) {
    in.push_back(l.dense(k));
  }
  for (std::size_t k = 0; k < l.instruction().outputs.size(); ++k) {
    out.push_back(l.out(static_cast<int>(k)));
  }
  return [in, out, attrs = l.attrs(), &def, transport = l.transport()](const Frame& f) {
    log_kernel(fmt::format("reference.{}", def.name));
    std::vector<ops::HostTensor> inputs, outputs;
    for (const Arg& a : in) {
      inputs.push_back(a ? ops::HostTensor{&a.type, f.ptr(a)} : ops::HostTensor{});
    }
    for (const Arg& a : out) {
      outputs.push_back({&a.type, f.ptr(a)});
    }
    def.reference({inputs, outputs, attrs, transport.get()});
  };
}

const Kernel* find_kernel(const ir::Graph& graph, const ir::Instruction& instruction) {
  for (const auto family : {view_kernels(), elementwise_kernels(), reduction_kernels(), row_kernels(),
                            contraction_kernels(), indexed_kernels(), attention_kernels()}) {
    for (const Kernel& k : family) {
      if (k.op == instruction.op && k.takes(graph, instruction)) {
        return &k;
      }
    }
  }
  return nullptr;
}

}  // namespace isotone::cpu
