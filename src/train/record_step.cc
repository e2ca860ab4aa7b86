// What others than the run itself want of a step: its graph, and an audit.
#include "base/error.h"
#include "tensor/trace.h"
#include "train/step.h"

namespace isotone::train {

Stepper::Recorded Stepper::record(const TrainState& state, const data::Batch& part, float weight) {
  const int ranks = shards_.ranks().size();
  require(ranks == 1, "a step is recorded by a process that is alone, not by one of {} ranks", ranks);
  const Tensors arguments = arguments_of(state.parameters, part, weight);
  std::vector<Type> types;
  for (const Tensor& t : arguments) {
    types.push_back(t.type());
  }
  Recorded out;
  Traced traced = trace([this](const Tensors& a) { return losses_of(a, Want::uses); }, types);
  out.graph = std::move(traced.graph);
  out.inputs = buffers_of(arguments, traced.captured);
  for (const nn::ParameterSpec& s : specs_) {
    out.names.push_back(s.name);
  }
  for (const char* name :
       {"the tokens", "the next tokens", "the positions", "the documents' starts", "the weight of a token's loss"}) {
    out.names.emplace_back(name);
  }
  return out;
}

void Stepper::set_audit(AuditOptions options) {
  std::vector<std::string> names;
  for (const nn::ParameterSpec& s : specs_) {
    names.push_back(s.name);
  }
  if (shared_ < specs_.size() && !whole_batch()) {
    names.push_back(specs_[shared_].name + " in the logits");
  }
  audit_ = Audit(std::move(options), recipe_.seed, std::move(names));
}

}  // namespace isotone::train
