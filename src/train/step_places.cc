// Where the arguments and results of a compiled step lie on the ranks that share a model, and what that takes.
#include "train/step.h"

namespace isotone::train {

namespace {

/// Arguments after the parameters: ids, targets, positions, document starts, weight of a token's loss.
constexpr std::size_t kBatchArguments = 5;

}  // namespace

std::vector<Type> Stepper::argument_types(std::int64_t grains) const {
  std::vector<Type> types;
  for (const nn::ParameterSpec& s : specs_) {
    types.push_back({DType::f32, s.shape});
  }
  types.insert(types.end(), kBatchArguments - 1, Type{DType::i32, {grains, recipe_.grain_tokens}});
  types.push_back({DType::f32, {}});
  return types;
}

ir::Placement Stepper::token_placement() const {
  ir::Placement p = ir::replicated(grid_.mesh());
  for (std::size_t a = 0; a < p.size(); ++a) {
    if (const ir::MeshAxis& axis = grid_.mesh().axes()[a]; axis.name == "context") {
      p[a] = ir::cut_evenly(1, recipe_.grain_tokens, axis.size);
    }
  }
  return p;
}

MeshFunction::Places Stepper::places(Want want) const {
  MeshFunction::Places p;
  const ir::Placement whole = ir::replicated(grid_.mesh());
  p.results.emplace_back(whole);  // the losses
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    p.arguments.push_back(shards_.placement(i));
  }
  if (want != Want::losses) {
    p.results.emplace_back(whole);  // the balance
    p.results.insert(p.results.end(), p.arguments.begin(), p.arguments.end());
  }
  if (want == Want::uses && shared_ < specs_.size()) {
    p.results.emplace_back(shards_.placement(shared_));
  }
  p.arguments.insert(p.arguments.end(), kBatchArguments - 1, token_placement());
  p.arguments.push_back(whole);
  return p;
}

Tensors Stepper::arguments_of(const nn::Parameters& parameters, const data::Batch& batch, float weight) const {
  Tensors out;
  for (const nn::ParameterSpec& s : specs_) {
    out.push_back(parameters.at(s.name));
  }
  const ir::Placement tokens = token_placement();
  for (const Tensor& t : batch_tensors(batch)) {
    out.push_back(dist::part_of(t, tokens, grid_.coordinates(grid_.model().rank())));
  }
  out.push_back(Tensor::from(std::vector<float>{weight}, {}));
  return out;
}

void Stepper::add_losses(const Tensor& losses, ExactSum& sum) const {
  if (grid_.leads()) {
    sum.add(losses.to_floats());
  }
}

device::MemoryReport Stepper::memory(std::int64_t grains) {
  return gradient_step().memory(argument_types(grains));
}

std::size_t Stepper::bytes_sent_in_model() {
  std::size_t bytes = 0;
  const std::function<void(Span)> count = [&](Span node) {
    if (node.size() > micro_grains_) {  // as gradients() cuts it
      const std::int64_t left = (node.size() + 1) / 2;
      count({node.begin, node.begin + left});
      count({node.begin + left, node.end});
    } else if (grid_.model().size() > 1) {
      bytes += gradient_step().bytes_sent(argument_types(node.size()));
    }
  };
  for (const Span node : shards_.parts_of(recipe_.grains).nodes(shards_.rank())) {
    count(node);
  }
  return bytes * static_cast<std::size_t>(recipe_.rounds);
}

}  // namespace isotone::train
