// Llama (Touvron et al., 2023) and its kin: SmolLM2, and others that differ in sizes only.
// Shapes: G grains, T tokens, E embed, H heads, K kv heads, D head width, M mlp, V vocab.
#include "base/error.h"
#include "base/fmath.h"
#include "models/model.h"
#include "tensor/transforms.h"

namespace isotone::models {

namespace {

std::string layer_name(int layer, std::string_view part) {
  return "model.layers." + std::to_string(layer) + "." + std::string(part) + ".weight";
}

std::vector<nn::ParameterSpec> llama_parameters(const ModelConfig& c) {
  require(c.rope_scaling.empty(), "llama: scaled rotary positions ({}) are not offered", c.rope_scaling);
  require(!c.attention_bias && !c.mlp_bias, "llama: biases are not offered");
  require(c.hidden_act == "silu", "llama: the activation '{}' is not offered, silu is", c.hidden_act);
  require(c.sliding_window == 0 || c.sliding_window >= c.max_position,
          "llama: a sliding window ({} of {} tokens) is not offered", c.sliding_window, c.max_position);
  const std::int64_t e = c.hidden_size, d = c.head_dim;
  // The query heads that share a key head stay together.
  const nn::LogicalAxis embed{"embed"}, mlp{"mlp"}, vocab{"vocab"}, kv_heads{"kv_heads", d};
  const nn::LogicalAxis heads{"heads", d * (c.n_heads / c.n_kv_heads)};
  std::vector<nn::ParameterSpec> out;
  out.push_back({"model.embed_tokens.weight", {c.vocab_size, e}, {vocab, embed}});
  for (int i = 0; i < c.n_layers; ++i) {
    const auto name = [i](std::string_view part) { return layer_name(i, part); };
    out.push_back({name("input_layernorm"), {e}, {embed}, 0.0, false});
    out.push_back({name("self_attn.q_proj"), {c.n_heads * d, e}, {heads, embed}});
    out.push_back({name("self_attn.k_proj"), {c.n_kv_heads * d, e}, {kv_heads, embed}});
    out.push_back({name("self_attn.v_proj"), {c.n_kv_heads * d, e}, {kv_heads, embed}});
    out.push_back({name("self_attn.o_proj"), {e, c.n_heads * d}, {embed, heads}});
    out.push_back({name("post_attention_layernorm"), {e}, {embed}, 0.0, false});
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

/// f, or recompute(f).
Function once_more(bool yes, Function f) {
  return yes ? recompute(std::move(f)) : f;
}

Tensor llama_hidden(const ModelConfig& c, const nn::Parameters& p, const Tensor& ids, const Tensor& positions,
                    nn::AttentionState& attention, const ForwardOptions& options) {
  using namespace ops;  // NOLINT(google-build-using-namespace): the model reads as its formulae
  const std::int64_t g = ids.dim(0), t = ids.dim(1), d = c.head_dim;
  const double scale = 1.0 / fmath64::pow(static_cast<double>(d), 0.5);
  const Value cos = embedding(p.at(kCosTable), positions, DType::f32);
  const Value sin = embedding(p.at(kSinTable), positions, DType::f32);
  Value x = embedding(p.at("model.embed_tokens.weight"), ids, options.compute);  // [G, T, E]
  const Recompute again = options.recompute;
  const bool light = again == Recompute::light;
  for (int i = 0; i < c.n_layers; ++i) {
    const auto w = [&](std::string_view part) -> const Tensor& { return p.at(layer_name(i, part)); };
    const auto project = [&](const Tensors& in) -> Tensors {
      const Value a = rms_norm(in[0], w("input_layernorm"), c.rms_norm_eps);
      return {linear(a, w("self_attn.q_proj")), linear(a, w("self_attn.k_proj")), linear(a, w("self_attn.v_proj"))};
    };
    const auto widen = [&](const Tensors& in) -> Tensors {
      const Value b = rms_norm(in[0], w("post_attention_layernorm"), c.rms_norm_eps);
      return {linear(b, w("mlp.gate_proj")), linear(b, w("mlp.up_proj"))};
    };
    const auto narrow = [&](const Tensors& in) -> Tensors {
      return {linear(swiglu(in[0], in[1]), w("mlp.down_proj"))};
    };
    const auto mlp = [&](const Tensors& in) { return once_more(light, narrow)(once_more(light, widen)(in)); };
    const auto layer = [&](const Tensors& in) -> Tensors {
      const Tensors qkv = once_more(light || again == Recompute::mlp, project)(in);
      const Value q = rope(reshape(qkv[0], {g, t, c.n_heads, d}), cos, sin);
      const Value k = rope(reshape(qkv[1], {g, t, c.n_kv_heads, d}), cos, sin);
      const Value v = reshape(qkv[2], {g, t, c.n_kv_heads, d});
      const Value o = reshape(attention.attend(i, q, k, v, scale), {g, t, c.n_heads * d});
      const Value y = add(in[0], linear(o, w("self_attn.o_proj")));
      return {add(y, once_more(again == Recompute::mlp, mlp)({y})[0])};
    };
    x = once_more(again == Recompute::layer, layer)({x})[0];
  }
  return rms_norm(x, p.at("model.norm.weight"), c.rms_norm_eps);
}

Tensor llama_logits(const ModelConfig& c, const nn::Parameters& p, const Tensor& hidden) {
  return ops::linear(hidden, p.at(c.tie_embeddings ? "model.embed_tokens.weight" : "lm_head.weight"), DType::f32);
}

}  // namespace

const Architecture& llama() {
  static constexpr Architecture kLlama{"llama", llama_parameters, llama_hidden, llama_logits};
  return kLlama;
}

}  // namespace isotone::models
