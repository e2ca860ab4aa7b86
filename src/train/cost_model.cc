#include "train/cost_model.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"

namespace isotone::train {
namespace {

/// What of a layer's forward pass is done again, and what is kept of its activations (elements of a token).
struct Again {
  double products = 0, attention = 0, kept = 0;
};

double activation_elements(const ModelShape& m) {
  const double mlp = m.experts > 0 ? m.mlp * m.experts_used : m.mlp;
  // Two norms, two residual streams, both blocks' results; queries and what attention gives; keys and values; the MLP's
  // three.
  return 6 * m.hidden + 2 * m.heads + 2 * m.kv_heads + 3 * mlp;
}

double layer_products(const ModelShape& m) {  // elements that a token is multiplied with
  const double experts = m.experts > 0 ? m.experts_used : 1;
  return m.hidden * (2 * m.heads + 2 * m.kv_heads + 3 * m.mlp * experts);
}

Again again_of(const ModelShape& m, const std::string& recompute) {
  const double all = activation_elements(m);
  if (recompute == "none") {
    return {0, 0, all};
  }
  if (recompute == "light") {
    return {0, 0, all - 2 * m.hidden - m.mlp};
  }
  if (recompute == "mlp") {
    return {2 * m.hidden * m.mlp / layer_products(m), 0, all - 2 * m.hidden - 3 * m.mlp};
  }
  if (recompute == "half") {
    return {0.5, 0, m.hidden + all / 2};
  }
  require(recompute == "layer", "recompute '{}' is not known to the cost model", recompute);
  return {1, 1, m.hidden};
}

void check(const ModelShape& m, const MeshShape& mesh, const Workload& w, int microbatches) {
  const auto fits = [](const char* what, double of, int by) {
    require(by >= 1 && std::fmod(of, by) == 0, "{} cannot be cut among {} ranks: there are {}", what, by, of);
  };
  fits("heads", m.heads / m.head_width, mesh.tensor);
  fits("heads of keys and values", m.kv_heads / m.head_width, mesh.tensor);
  fits("the MLP's features", m.mlp, mesh.tensor);
  fits("a sequence's tokens", w.tokens, mesh.context);
  require(mesh.expert == 1 || m.experts > 0, "the model has no experts to cut among {} ranks", mesh.expert);
  fits("experts", std::max(m.experts, 1.0), mesh.expert);
  fits("the data axis", mesh.data, mesh.expert);
  require(mesh.pipeline * mesh.interleave <= m.layers, "{} stages need as many layers; there are {}",
          mesh.pipeline * mesh.interleave, m.layers);
  require(mesh.data <= w.sequences, "{} data-parallel ranks have no work: a step has {} sequences", mesh.data,
          w.sequences);
  require(microbatches <= std::ceil(w.sequences / mesh.data), "{} micro-batches need as many sequences on each rank",
          microbatches);
}

}  // namespace

double ModelShape::layer_elements() const {
  return hidden * (2 * heads + 2 * kv_heads + 3 * mlp * std::max(1.0, experts) + experts) + 2 * hidden;
}

double ModelShape::elements() const {
  return layers * layer_elements() + hidden + (tied ? 1 : 2) * vocab * hidden;
}

ModelShape shape_of(const ModelConfig& c) {
  const auto d = [](std::int64_t x) { return static_cast<double>(x); };
  return {
      d(c.n_layers), d(c.hidden_size), d(c.intermediate_size), d(c.n_heads * c.head_dim), d(c.n_kv_heads * c.head_dim),
      d(c.head_dim), d(c.vocab_size),  c.tie_embeddings};
}

Cost cost_of_step(const ModelShape& m, const Chip& chip, double network, const MeshShape& mesh, const Workload& w,
                  const FittedConstants& fit) {
  const int micro = mesh.pipeline == 1 ? 1 : mesh.microbatches > 0 ? mesh.microbatches : mesh.pipeline;
  check(m, mesh, w, micro);
  const double t = mesh.tensor, p = mesh.pipeline, c = mesh.context, e = mesh.expert, v = mesh.interleave;
  const double shards = mesh.data * c;
  const Again again = again_of(m, w.recompute);
  const double sequences = std::ceil(w.sequences / mesh.data);
  const double tokens = sequences * w.tokens / c;  // of this rank
  const double b = w.value_bytes;
  const double products = w.fp8 && chip.matmul_fp8 > 0 ? chip.matmul_fp8 : chip.matmul;
  const double link = chip.link * fit.link_share, net = network * fit.link_share;
  // Bandwidth of a collective over a group whose neighbours lie `inner` ranks apart: within a node its links, across
  // nodes the networks of all its members there.
  const auto bandwidth = [&](double size, double inner) {
    const double in_node = std::max(1.0, std::floor(chip.chips_a_node / inner));
    return size * inner <= chip.chips_a_node ? link : std::min(link, net * in_node);
  };
  // The slowest stage: of as many layers as any has, or the last with its logits.
  const double layer = layer_products(m), looked_at = (w.tokens + 1) / 2;
  const double head = m.hidden * m.vocab;
  const double layers =
      std::max(std::ceil(m.layers / (p * v)) * v, p > 1 ? std::floor(m.layers / p) + head / layer : 0);
  const double last = p == 1 ? 1.0 : 0.0;  // whether the logits are counted beside them

  Cost r;
  const double attention = tokens * layers / t * 4 * m.heads * looked_at * (3 + again.attention) / chip.attention;
  r.matmul = tokens / t * (layers * 2 * layer * (3 + again.products) + last * 6 * head) / products + attention;
  const double passes = fit.activation_passes / chip.memory_bandwidth;
  r.activations =
      passes * tokens / t *
      (layers * activation_elements(m) * b * (3 + std::max(again.products, again.attention)) / 3 + last * m.vocab * 4);
  // Parameters that this rank computes with. Experts that are cut lie on fewer ranks, which share each of theirs.
  const double experts = layers * 3 * m.hidden * m.mlp * m.experts / (t * e), expert_shards = shards / e;
  const double ends = p == 1 ? (m.tied ? 1 : 2) * m.vocab * m.hidden + m.hidden : 0;
  const double dense = (layers * m.layer_elements() + ends) / t - experts * e, held = dense + experts;
  const bool cut = w.mode != DataMode::replicated;
  const double together = w.at_once > 0 ? std::min(w.at_once, sequences / micro) : sequences / micro;
  const double times = std::ceil(sequences / together);
  r.parameters = times * fit.parameter_passes * 4 * held / chip.memory_bandwidth;
  const double slices = dense / shards + experts / expert_shards;    // of them, where all is cut
  r.update = 7 * 4 * (cut ? slices : held) / chip.memory_bandwidth;  // reads p, m, v, g; writes p, m, v

  const double gathers = w.mode == DataMode::zero3 && p == 1 ? w.gathers : 1;
  r.data_bytes = (held - slices) * (4 + gathers * w.gathered_bytes);
  r.tensor_bytes = (t - 1) / t * tokens * layers * m.hidden * b * (8 + 4 * again.products);
  r.context_bytes = (c - 1) * tokens * layers * 2 * m.kv_heads / t * b * 3;
  r.expert_bytes = m.experts > 0 ? (e - 1) / e * tokens / t * layers * m.experts_used * m.hidden * b * 4 : 0;
  r.pipeline_bytes = p > 1 ? 2 * v * tokens / t * m.hidden * b : 0;

  const double busy = r.matmul + r.activations + r.parameters;
  const double data_seconds = r.data_bytes / bandwidth(shards, t);
  r.data_messages = w.overlap ? std::max(data_seconds - busy, data_seconds / m.layers) : data_seconds;
  r.tensor_messages = r.tensor_bytes / bandwidth(t, 1) / (w.tensor_overlap ? t : 1);
  r.context_messages = std::max(0.0, r.context_bytes / bandwidth(c, t) - attention);
  r.expert_messages = r.expert_bytes / bandwidth(e, t * c);
  r.pipeline_messages = r.pipeline_bytes / bandwidth(p, t * c * mesh.data);
  // One forward, one backward (Narayanan et al., 2021): the first and last micro-batches pass p - 1 other stages, of
  // which interleaving makes v times as many, each a v-th as long.
  const double staged = busy + r.tensor_messages + r.context_messages + r.expert_messages;
  r.bubble = staged * (p - 1) / (v * micro);
  r.seconds = staged + r.bubble + r.update + r.data_messages + r.pipeline_messages;

  const double all_tokens = w.sequences * w.tokens;
  r.tokens_a_second = all_tokens / r.seconds;
  const double needed = all_tokens * (6 * (m.layers * layer + head) + 12 * m.layers * m.heads * looked_at);
  r.peak_share = needed / r.seconds / (mesh.ranks() * chip.bf16);

  const bool zero3 = w.mode == DataMode::zero3;
  r.parameter_memory =
      4 * (zero3 ? slices : held) +
      (zero3 && shards > 1 ? w.gathered_bytes * (p > 1 || gathers == 1 ? held : 2 * held / layers) : 0);
  r.optimiser_memory = 8 * (cut ? slices : held);
  r.gradient_memory = 4 * (cut ? slices : held);
  const double in_flight = std::min<double>(micro, p) * (v > 1 ? 1 + (p - 1) / (p * v) : 1);
  // What is kept; one layer that is at work, with its gradients; logits; parameters in the activations' dtype, where
  // they are not gathered in it.
  r.activation_memory =
      together * w.tokens / c / t *
          (layers * again.kept * b * in_flight + 2 * activation_elements(m) * b + w.logit_copies * m.vocab * 4) +
      (b < w.gathered_bytes ? b * held : 0);
  return r;
}

}  // namespace isotone::train
