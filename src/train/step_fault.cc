// Which tensor was the first that is not finite, in the order of a step.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "dist/agree.h"
#include "train/step.h"

namespace isotone::train {

/// Every rank looks at what it has and the first fault in the order of a step is everybody's.
void Stepper::name_fault(std::int64_t step, const nn::Parameters& parameters, const data::GlobalBatch& batch,
                         const Tensors& gradients) {
  const auto bad = [](const Tensor& t) {
    const std::vector<float> values = t.to_floats();
    return std::any_of(values.begin(), values.end(), [](float x) { return !std::isfinite(x); });
  };
  const auto n = static_cast<std::int64_t>(specs_.size());
  std::int64_t at = INT64_MAX;  // when in a step it comes up
  std::string what;
  const auto found = [&](std::int64_t when, const std::string& text) {
    if (when < at) {
      at = when;
      what = text;
    }
  };
  nn::Parameters p;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::string& name = specs_[static_cast<std::size_t>(i)].name;
    const Tensor& t = parameters.at(name);
    if (bad(t)) {
      found(i, fmt::format("parameter '{}' holds", name));
    }
  }
  // Forward again, to find the first value.
  const nn::Parameters whole = shards_.join_parts(parameters);
  for (const nn::ParameterSpec& s : specs_) {
    p.set(s.name, ops::cast(whole.at(s.name), recipe_.dtype));
  }
  for (const auto& [name, table] : tables_.all()) {
    p.set(name, table);
  }
  for_own_parts(batch, [&](const data::Batch& part, std::int64_t first) {
    if (at < INT64_MAX) {
      return;
    }
    const Tensors b = batch_tensors(part);
    nn::PackedAttention attention(b[3]);
    const Tensor hidden = architecture_.hidden(config_, p, b[0], b[2], attention, {recipe_.dtype});
    if (bad(hidden)) {
      found(n + 2 * first, "the last hidden state holds");
    } else if (bad(architecture_.logits(config_, p, hidden))) {
      found(n + 2 * first + 1, "the logits hold");
    }
  });
  for (std::int64_t i = 0; i < n; ++i) {
    if (bad(gradients[static_cast<std::size_t>(i)])) {
      found(n + 2 * batch.grains() + i,
            fmt::format("the gradient of '{}' holds", specs_[static_cast<std::size_t>(i)].name));
    }
  }
  const std::vector<std::string> all = dist::texts_of_ranks(shards_.ranks(), fmt::format("{:019d}{}", at, what));
  what = std::min_element(all.begin(), all.end())->substr(19);
  const std::string hint = "the last checkpoint is whole; try a lower learning rate, or look at the data of this batch";
  require(what.empty(), "step {}: {} a NaN or an infinity; {}", step, what, hint);
  fail("step {}: the loss or the gradient norm is not finite, though no single tensor is: it overflows; {}", step,
       hint);
}

}  // namespace isotone::train
