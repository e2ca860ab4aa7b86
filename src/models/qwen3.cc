// Qwen3 (Yang et al., 2025), dense and with experts: Llama with a norm over each head's queries and keys.
// Shapes: G grains, T tokens, E embed, H heads, K kv heads, D head width, M mlp, V vocab, X experts.
#include "base/error.h"
#include "base/fmath.h"
#include "models/model.h"
#include "nn/experts.h"
#include "tensor/transforms.h"

namespace isotone::models {

namespace {

std::string layer_name(int layer, std::string_view part) {
  return "model.layers." + std::to_string(layer) + "." + std::string(part) + ".weight";
}

/// The matrices [out, in] of all experts of a layer as one parameter; a checkpoint has them one by one.
nn::ParameterSpec expert_matrices(int layer, const std::string& part, const ModelConfig& c, std::int64_t out,
                                  std::int64_t in, const nn::LogicalAxis& out_axis, const nn::LogicalAxis& in_axis) {
  nn::ParameterSpec spec{
      layer_name(layer, "mlp.experts." + part), {c.experts.count, out, in}, {{"expert"}, out_axis, in_axis}};
  for (std::int64_t x = 0; x < c.experts.count; ++x) {
    spec.slices.push_back(layer_name(layer, "mlp.experts." + std::to_string(x) + "." + part));
  }
  return spec;
}

std::vector<nn::ParameterSpec> qwen3_parameters(const ModelConfig& c) {
  require(c.rope_scaling.empty(), "qwen3: scaled rotary positions ({}) are not offered", c.rope_scaling);
  require(!c.attention_bias && !c.mlp_bias, "qwen3: biases are not offered");
  require(c.hidden_act == "silu", "qwen3: the activation '{}' is not offered, silu is", c.hidden_act);
  require(c.sliding_window == 0 || c.sliding_window >= c.max_position,
          "qwen3: a sliding window ({} of {} tokens) is not offered", c.sliding_window, c.max_position);
  const std::int64_t e = c.hidden_size, d = c.head_dim;
  // The query heads that share a key head stay together.
  const nn::LogicalAxis embed{"embed"}, mlp{"mlp"}, expert_mlp{"expert_mlp"}, vocab{"vocab"}, head_dim{"head_dim"},
      kv_heads{"kv_heads", d};
  const nn::LogicalAxis heads{"heads", d * (c.n_heads / c.n_kv_heads)};
  std::vector<nn::ParameterSpec> out;
  out.push_back({"model.embed_tokens.weight", {c.vocab_size, e}, {vocab, embed}});
  for (int i = 0; i < c.n_layers; ++i) {
    const auto name = [i](std::string_view part) { return layer_name(i, part); };
    out.push_back({name("input_layernorm"), {e}, {embed}, 0.0, false});
    out.push_back({name("self_attn.q_proj"), {c.n_heads * d, e}, {heads, embed}});
    out.push_back({name("self_attn.k_proj"), {c.n_kv_heads * d, e}, {kv_heads, embed}});
    out.push_back({name("self_attn.v_proj"), {c.n_kv_heads * d, e}, {kv_heads, embed}});
    out.push_back({name("self_attn.q_norm"), {d}, {head_dim}, 0.0, false});
    out.push_back({name("self_attn.k_norm"), {d}, {head_dim}, 0.0, false});
    out.push_back({name("self_attn.o_proj"), {e, c.n_heads * d}, {embed, heads}});
    out.push_back({name("post_attention_layernorm"), {e}, {embed}, 0.0, false});
    if (c.experts.sparse(i)) {
      const std::int64_t m = c.experts.width;
      out.push_back({name("mlp.gate"), {c.experts.count, e}, {{"router"}, embed}});
      out.push_back(expert_matrices(i, "gate_proj", c, m, e, expert_mlp, embed));
      out.push_back(expert_matrices(i, "up_proj", c, m, e, expert_mlp, embed));
      out.push_back(expert_matrices(i, "down_proj", c, e, m, embed, expert_mlp));
      continue;
    }
    out.push_back({name("mlp.gate_proj"), {c.intermediate_size, e}, {mlp, embed}});
    out.push_back({name("mlp.up_proj"), {c.intermediate_size, e}, {mlp, embed}});
    out.push_back({name("mlp.down_proj"), {e, c.intermediate_size}, {embed, mlp}});
  }
  out.push_back({"model.norm.weight", {e}, {embed}, 0.0, false});
  if (!c.tie_embeddings) {
    out.push_back({"lm_head.weight", {c.vocab_size, e}, {vocab, embed}});
  }
  return out;
}

Tensor qwen3_hidden(const ModelConfig& c, const nn::Parameters& p, const Tensor& ids, const Tensor& positions,
                    nn::AttentionState& attention, const ForwardOptions& options) {
  using namespace ops;  // NOLINT(google-build-using-namespace): the model reads as its formulae
  const std::int64_t g = ids.dim(0), t = ids.dim(1), d = c.head_dim;
  const double scale = 1.0 / fmath64::pow(static_cast<double>(d), 0.5);
  const Value cos = embedding(p.at(kCosTable), positions, DType::f32);
  const Value sin = embedding(p.at(kSinTable), positions, DType::f32);
  Value x = embedding(p.at("model.embed_tokens.weight"), ids, options.compute);  // [G, T, E]
  for (int i = 0; i < c.n_layers; ++i) {
    const auto w = [&](std::string_view part) -> const Tensor& { return p.at(layer_name(i, part)); };
    // [G, T, heads * D] to [G, T, heads, D], each head normed. The norm sees [G, T * heads, D], so that its weight's
    // gradient is one axis tree over a grain's tokens and heads, then the tree over grains.
    const auto normed_heads = [&](const Value& v, std::int64_t n, std::string_view norm) {
      return reshape(rms_norm(reshape(v, {g, t * n, d}), w(norm), c.rms_norm_eps), {g, t, n, d});
    };
    const auto layer = [&](const Tensors& in) -> Tensors {
      const Value a = rms_norm(in[0], w("input_layernorm"), c.rms_norm_eps);
      const Value q = rope(normed_heads(linear(a, w("self_attn.q_proj")), c.n_heads, "self_attn.q_norm"), cos, sin);
      const Value k = rope(normed_heads(linear(a, w("self_attn.k_proj")), c.n_kv_heads, "self_attn.k_norm"), cos, sin);
      const Value v = reshape(linear(a, w("self_attn.v_proj")), {g, t, c.n_kv_heads, d});
      const Value o = reshape(attention.attend(i, q, k, v, scale), {g, t, c.n_heads * d});
      const Value y = add(in[0], linear(o, w("self_attn.o_proj")));
      const Value b = rms_norm(y, w("post_attention_layernorm"), c.rms_norm_eps);
      if (!c.experts.sparse(i)) {
        const Value h = swiglu(linear(b, w("mlp.gate_proj")), linear(b, w("mlp.up_proj")));
        return {add(y, linear(h, w("mlp.down_proj")))};
      }
      const nn::Routing routing =
          nn::route(linear(b, w("mlp.gate"), DType::f32), c.experts.per_token, c.experts.normalise);
      const nn::ExpertWeights experts{w("mlp.experts.gate_proj"), w("mlp.experts.up_proj"), w("mlp.experts.down_proj")};
      return {add(y, nn::mix_experts(b, routing, experts)), routing.ids, routing.weights, routing.probabilities};
    };
    // Any mode but none keeps the layers' inputs alone.
    const Tensors made = (options.recompute == Recompute::none ? Function(layer) : recompute(layer))({x});
    x = made[0];
    if (options.routing != nullptr && c.experts.sparse(i)) {
      options.routing->push_back({made[1], made[2], made[3]});
    }
  }
  return rms_norm(x, p.at("model.norm.weight"), c.rms_norm_eps);
}

Tensor qwen3_logits(const ModelConfig& c, const nn::Parameters& p, const Tensor& hidden) {
  return ops::linear(hidden, p.at(c.tie_embeddings ? "model.embed_tokens.weight" : "lm_head.weight"), DType::f32);
}

}  // namespace

const Architecture& qwen3_moe() {
  static constexpr Architecture kQwen3Moe{"qwen3_moe", qwen3_parameters, qwen3_hidden, qwen3_logits};
  return kQwen3Moe;
}

const Architecture& qwen3() {
  static constexpr Architecture kQwen3{"qwen3", qwen3_parameters, qwen3_hidden, qwen3_logits};
  return kQwen3;
}

}  // namespace isotone::models
