// The feed-forward part of a layer that has many experts, of which a token uses a few (Shazeer et al., 2017). Must not
// know whose model it is.
#pragma once

#include <vector>

#include "tensor/tensor.h"

namespace isotone::nn {

/// Which experts each token uses. G grains, T tokens, X experts, K choices.
struct Routing {
  Tensor ids;            ///< i32 [G, T, K], ascending
  Tensor weights;        ///< f32 [G, T, K]
  Tensor probabilities;  ///< f32 [G, T, X]: the softmax of the router's scores
};

/// The routings of a forward pass, by layer: what balance losses and statistics are made of.
using RoutingLog = std::vector<Routing>;

/// Routes by f32 scores [G, T, X]: the `choices` experts of largest probability, the lower index where equal; weighted
/// by it, divided by their sum where `normalise`.
Routing route(const Tensor& scores, std::int64_t choices, bool normalise);

/// An expert's matrices, stacked [X, out, in].
struct ExpertWeights {
  Tensor gate, up, down;
};

/// The answers of each token's experts, weighted and added: [G, T, E] of x [G, T, E].
Tensor mix_experts(const Tensor& x, const Routing& routing, const ExpertWeights& w);

/// How unevenly each grain's tokens use the experts (Fedus et al., 2022), f32 [G]: X times the sum over the experts of
/// the share of choices that fell on one (of K in all) times its mean probability, both over the grain's tokens and all
/// routings. K where all are used alike. One routing at least.
Tensor balance_loss(const RoutingLog& log);

}  // namespace isotone::nn
