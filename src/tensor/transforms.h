// Functions from function to function: gradients, compilation, recomputation.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tensor/tensor.h"

namespace isotone {

using Tensors = std::vector<Tensor>;
using Function = std::function<Tensors(const Tensors&)>;

/// The function that gives {f(x)[0], gradients of f(x)[0] to every x} lazily. f's first result must be a scalar (no
/// axes); its other results are returned too. Integer arguments get no gradient: an empty Tensor stands in their place.
/// Gradients of parameters are f32 whatever they are computed in (docs/numerics.md, section 6). Gradients can be
/// differentiated again.
struct ValueAndGrad {
  Tensors values;
  Tensors gradients;
};
std::function<ValueAndGrad(const Tensors&)> value_and_grad(Function f);

/// The function that gives the gradients alone.
Function grad(Function f);

/// f, whose intermediate values are not kept for the backward pass but computed again there: less memory, equal bits.
Function recompute(Function f);

struct CompileSettings {
  /// Arguments whose memory the results may take over; the caller must not use them afterwards.
  std::vector<std::size_t> donate;
};

/// f traced once for each list of argument types, rewritten, planned and kept. Tensors that f captures are taken as
/// they are at the first call. Calling it computes at once. Not to be called from several threads at a time.
class Compiled {
 public:
  Compiled(Function f, CompileSettings settings = {});
  Tensors operator()(const Tensors& arguments);
  /// Memory of the plan for these argument types, without running it.
  device::MemoryReport memory(const std::vector<Type>& types);

 private:
  struct Entry;
  Entry& entry(const std::vector<Type>& types);
  Function f_;
  CompileSettings settings_;
  std::vector<std::shared_ptr<Entry>> entries_;
};
Compiled compile(Function f, CompileSettings settings = {});

}  // namespace isotone
