// The contract of an operation. Each file of this folder defines one operation as a struct and ends with
// ISOTONE_OP(file_name, Struct); the table of all of them is generated from the folder (cmake/GenerateOps.cmake).
// A struct has: name, infer, vjp, shard, samples, and decompose (composites) or reference (primitives).
// See docs/adding-an-op.md.
#pragma once

#include <concepts>
#include <cstring>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/half.h"
#include "base/reduction_tree.h"
#include "ir/value.h"

namespace isotone::ops {

using ir::as_attr;
using ir::Attrs;
using ir::Ints;
using ir::Shape;
using ir::Type;
using ir::Types;
using ir::Value;
using ir::Values;

/// Types of the inputs of a call; optional inputs may be absent.
class InTypes {
 public:
  explicit InTypes(std::vector<const Type*> types, std::string_view op = "operation")
      : types_(std::move(types)), op_(op) {}
  [[nodiscard]] int size() const { return static_cast<int>(types_.size()); }
  [[nodiscard]] bool has(int i) const { return i < size() && types_[static_cast<std::size_t>(i)] != nullptr; }
  /// Throws where input i is not given or empty, naming the operation.
  const Type& operator[](int i) const {
    if (!has(i)) [[unlikely]] {
      fail("{}: input {} is missing or empty", op_, i);
    }
    return *types_[static_cast<std::size_t>(i)];
  }

 private:
  std::vector<const Type*> types_;
  std::string_view op_;
};

/// What a gradient rule sees. `cotangents[i]` belongs to `outputs[i]` and may be none.
struct VjpCall {
  const Values& inputs;
  const Values& outputs;
  const Values& cotangents;
  const Attrs& attrs;
  /// Which inputs want a gradient; others may be answered with none.
  const std::vector<bool>& wanted;
};

/// A contiguous tensor in host memory, for references and tests.
struct HostTensor {
  const Type* type = nullptr;
  void* data = nullptr;

  explicit operator bool() const { return type != nullptr; }
  [[nodiscard]] std::int64_t elements() const { return type->elements(); }
  /// Element i widened to f32 (integers and booleans converted; quantised blocks dequantised).
  [[nodiscard]] float get(std::int64_t i) const;
  /// Element i of an integer or boolean tensor.
  [[nodiscard]] std::int64_t get_int(std::int64_t i) const;
  /// Rounds to the dtype, to nearest even; NaN becomes its one stored pattern. To integers it truncates and
  /// saturates, NaN gives 0.
  void set(std::int64_t i, float value) const;
  /// Integers wrap, booleans become 0 or 1.
  void set_int(std::int64_t i, std::int64_t value) const;
};

class Transport;

struct ReferenceCall {
  std::span<const HostTensor> inputs;
  std::span<const HostTensor> outputs;
  const Attrs& attrs;
  /// How collectives reach the other workers; null where there are none.
  Transport* transport = nullptr;
};

/// One input of a sample: its type and the range its random values come from (uniform).
struct SampleInput {
  Type type;
  double low = -2.0;
  double high = 2.0;
};

/// Inputs from which tests are made: reference against every backend, gradient against finite differences.
struct Sample {
  std::vector<SampleInput> inputs;
  Attrs attrs;
  bool check_gradient = true;
};

/// How the parts that workers computed become the whole.
enum class Join {
  sum,      ///< along the reduction tree of the letter that was cut
  maximum,  ///< the largest of each element, in any order
  minimum,
  select,  ///< at most one worker has bits other than zero
};

/// How a call may be shared out among workers. Each dimension has a letter, or '.' where every worker needs all of it;
/// dimensions of one letter are cut alike. A letter that no output has must be among `joined`.
struct ShardRule {
  std::vector<std::string> inputs, outputs;
  /// Letters over which the outputs are joined, outermost first. For sums the last one is an axis tree, those before it
  /// are element trees.
  std::string joined = {};
  Join join = Join::sum;
  /// Elements of each dimension that belong to one unit of its letter and are not parted (a head's width); empty: 1.
  std::vector<Ints> input_units = {}, output_units = {};
};

/// What one worker computes its part of a call from.
struct LocalCall {
  const Values& inputs;  ///< this worker's parts
  const Attrs& attrs;    ///< of the whole call
  const Types& outputs;  ///< of the parts to make
  /// Which units of a letter are this worker's, and how many there are in all.
  std::function<Span(char)> part;
  std::function<std::int64_t(char)> total;
};

struct OpDef {
  std::string_view name;
  Types (*infer)(const InTypes& inputs, const Attrs& attrs);
  Values (*vjp)(const VjpCall& call);                             // null: differentiate the decomposition
  Values (*decompose)(const Values& inputs, const Attrs& attrs);  // null for primitives
  void (*reference)(const ReferenceCall& call);                   // null for composites
  std::vector<Sample> (*samples)();
  /// The gradient rule takes and returns an f32 cotangent whatever the dtype of the value, so a weight's gradient
  /// passes it unrounded (casts and views).
  bool wide_cotangent;
  ShardRule (*shard)(const InTypes& inputs, const Types& outputs, const Attrs& attrs);
  Values (*local)(const LocalCall& call);  // null: the same call, with its "shape" made local
  /// Workers talk to each other here: such a call is never merged with another, and runs by the device's transport.
  bool collective;
};

template <class Op>
concept Decomposes = requires(const Values& v, const Attrs& a) {
  { Op::decompose(v, a) } -> std::same_as<Values>;
};
template <class Op>
concept HasReference = requires(const ReferenceCall& c) {
  { Op::reference(c) } -> std::same_as<void>;
};

template <class Op>
constexpr OpDef make_op() {
  static_assert(
      requires { Op::name; }, "this operation lacks `name`");
  static_assert(
      requires { &Op::infer; }, "this operation lacks `infer`: types in, types out");
  static_assert(
      requires { &Op::vjp; } || requires { Op::differentiate_decomposition; },
      "this operation lacks its gradient `vjp` (NoGradient: it has none; GradientOfDecomposition: derived)");
  static_assert(
      requires { &Op::samples; }, "this operation lacks `samples`, the inputs of its tests");
  static_assert(
      requires { &Op::shard; },
      "this operation lacks `shard`: which dimensions may be cut over workers (NeverCut: none)");
  static_assert(Decomposes<Op> != HasReference<Op>,
                "an operation has either `decompose` (a composite) or `reference` (a primitive)");
  OpDef def{};
  def.name = Op::name;
  def.infer = &Op::infer;
  def.samples = &Op::samples;
  def.shard = &Op::shard;
  def.wide_cotangent = requires {
    Op::wide_cotangent;
  };
  def.collective = requires {
    Op::collective;
  };
  if constexpr (requires { &Op::vjp; }) {
    def.vjp = &Op::vjp;
  }
  if constexpr (requires { &Op::local; }) {
    def.local = &Op::local;
  }
  if constexpr (Decomposes<Op>) {
    def.decompose = &Op::decompose;
  }
  if constexpr (HasReference<Op>) {
    def.reference = &Op::reference;
  }
  return def;
}

/// Placement rule of operations that every worker computes whole (a composite is decomposed where its inputs are cut).
struct NeverCut {
  static ShardRule shard(const InTypes& inputs, const Types& outputs, const Attrs& attrs);
};

/// Gradient rule of operations that have none: asking for it is an error that names the operation.
template <class Op>
struct NoGradient {
  static Values vjp(const VjpCall&);
};
[[noreturn]] void no_gradient(std::string_view name);
template <class Op>
Values NoGradient<Op>::vjp(const VjpCall&) {
  no_gradient(Op::name);
}

/// For composites whose gradient is that of their decomposition.
struct GradientOfDecomposition {
  static constexpr bool differentiate_decomposition = true;
};

#define ISOTONE_OP(file_name, Struct) extern constinit const OpDef op_##file_name = make_op<Struct>()

/// All operations, ascending by name.
std::span<const OpDef* const> table();
/// The operation of this name, or null.
const OpDef* find(std::string_view name);
/// Likewise; throws Error naming the nearest known name.
const OpDef& get(std::string_view name);

/// Checks the types and records a call. All functions that users call end here.
Values apply(std::string_view name, Values inputs, Attrs attrs = {});
inline Value apply1(std::string_view name, Values inputs, Attrs attrs = {}) {
  return apply(name, std::move(inputs), std::move(attrs))[0];
}

/// Throws unless the inputs from `first` to `last` all have the dtype of input `first`; names both.
void require_same_dtype(std::string_view op, const InTypes& in, int first, int last);
void require_float(std::string_view op, const Type& type);

}  // namespace isotone::ops
