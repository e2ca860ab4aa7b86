#include "nn/experts.h"

namespace isotone::nn {

using namespace ops;  // NOLINT(google-build-using-namespace): layers read as their formulae

Routing route(const Tensor& scores, std::int64_t choices, bool normalise) {
  const Value p = softmax(scores);
  const Value chosen = topk(stop_gradient(p), choices)[1];
  // Ascending, so that a token's sum has one order whatever the scores. Numbers of experts are exact in f32.
  const Value ids = cast(sort(cast(chosen, DType::f32))[0], DType::i32);
  const Value weights = gather(p, ids, -1);
  return {ids, normalise ? div(weights, sum(weights, {-1}, true)) : weights, p};
}

Tensor mix_experts(const Tensor& x, const Routing& routing, const ExpertWeights& w) {
  const std::int64_t g = x.dim(0), t = x.dim(1), e = x.dim(2);
  const Value rows = broadcast_to(reshape(x, {g, t, 1, e}), {g, t, routing.ids.dim(2), e});
  const Value h = swiglu(expert_linear(rows, w.gate, routing.ids), expert_linear(rows, w.up, routing.ids));
  return Tensor(expert_combine(expert_linear(h, w.down, routing.ids), routing.weights));
}

Tensor balance_loss(const RoutingLog& log) {
  const Tensor& first = log.front().probabilities;
  const std::int64_t g = first.dim(0), experts = first.dim(2);
  Value counts, probabilities;
  for (const Routing& r : log) {
    // Counts are whole numbers, exact in f32.
    const std::int64_t picks = r.ids.dim(1) * r.ids.dim(2);
    const Value chosen = scatter_add(full({g, experts}, 0.0), reshape(r.ids, {g, picks}), full({g, picks}, 1.0), 1);
    const Value likely = sum(r.probabilities, {1});
    counts = counts ? add(counts, chosen) : chosen;
    probabilities = probabilities ? add(probabilities, likely) : likely;
  }
  const auto rows = static_cast<double>(first.dim(1)) * static_cast<double>(log.size());
  return Tensor(mul(sum(mul(counts, probabilities), {1}), full({}, static_cast<double>(experts) / (rows * rows))));
}

}  // namespace isotone::nn
