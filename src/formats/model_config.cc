// config.json to ModelConfig and back, and its sanity rules.
#include "formats/model_config.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "formats/json_text.h"
#include "formats/model_config_impl.h"

namespace isotone {
namespace {

constexpr std::int64_t kMaxTokens = std::int64_t{1} << 31;

/// Fields of one JSON object, with messages that name file and field.
class Fields {
 public:
  Fields(const Json& object, const std::string& what) : object_(object), what_(what) {}

  [[nodiscard]] const Json* find(const char* key) const {
    const auto it = object_.find(key);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }

  [[nodiscard]] std::int64_t integer(const char* key, std::optional<std::int64_t> fallback = std::nullopt) const {
    const Json* value = find(key);
    if (value == nullptr && fallback) {
      return *fallback;
    }
    if (value == nullptr) {
      fail("{}: '{}' is missing", what_, key);
    }
    if (!value->is_number_integer() ||
        (value->is_number_unsigned() && value->get<std::uint64_t>() > std::uint64_t{1} << 62)) {
      fail("{}: '{}' must be an integer, found {}", what_, key, json_line(*value));
    }
    return value->get<std::int64_t>();
  }

  [[nodiscard]] double number(const char* key, double fallback) const {
    const Json* value = find(key);
    if (value == nullptr) {
      return fallback;
    }
    if (!value->is_number()) {
      fail("{}: '{}' must be a number, found {}", what_, key, json_line(*value));
    }
    return value->get<double>();
  }

  [[nodiscard]] bool boolean(const char* key, bool fallback) const {
    const Json* value = find(key);
    if (value == nullptr) {
      return fallback;
    }
    if (!value->is_boolean()) {
      fail("{}: '{}' must be true or false, found {}", what_, key, json_line(*value));
    }
    return value->get<bool>();
  }

  [[nodiscard]] std::string text(const char* key, const std::string& fallback) const {
    const Json* value = find(key);
    if (value == nullptr) {
      return fallback;
    }
    if (!value->is_string()) {
      fail("{}: '{}' must be a text, found {}", what_, key, json_line(*value));
    }
    return value->get<std::string>();
  }

  /// A number or a list of numbers.
  [[nodiscard]] std::vector<std::int64_t> ids(const char* key, std::string_view item = "a token id") const {
    std::vector<std::int64_t> out;
    const Json* value = find(key);
    if (value == nullptr) {
      return out;
    }
    const Json list = value->is_array() ? *value : Json::array({*value});
    for (const Json& id : list) {
      if (!id.is_number_integer() || id.get<std::int64_t>() < 0) {
        fail("{}: '{}' must be {} or a list of them, found {}", what_, key, item, json_line(*value));
      }
      out.push_back(id.get<std::int64_t>());
    }
    return out;
  }

 private:
  const Json& object_;
  const std::string& what_;
};

std::optional<DType> dtype_of_text(const std::string& text) {
  if (text == "float32" || text == "torch.float32") {
    return DType::f32;
  }
  if (text == "bfloat16" || text == "torch.bfloat16") {
    return DType::bf16;
  }
  if (text == "float16" || text == "torch.float16") {
    return DType::f16;
  }
  return std::nullopt;
}

}  // namespace

namespace {

/// What transformers takes where the file is silent (Qwen3MoeConfig).
ExpertsConfig parse_experts(const Fields& f) {
  ExpertsConfig e;
  e.count = f.integer("num_experts", f.integer("num_local_experts", 128));  // as transformers 4 and 5 write it
  e.per_token = f.integer("num_experts_per_tok", 8);
  e.width = f.integer("moe_intermediate_size", 768);
  e.normalise = f.boolean("norm_topk_prob", false);
  e.sparse_step = f.integer("decoder_sparse_step", 1);
  e.dense_layers = f.ids("mlp_only_layers", "a layer");
  e.balance = f.boolean("output_router_logits", false);
  e.balance_weight = f.number("router_aux_loss_coef", e.balance_weight);
  return e;
}

void write_experts(const ExpertsConfig& e, Json& json) {
  json["num_experts"] = e.count;
  json["num_experts_per_tok"] = e.per_token;
  json["moe_intermediate_size"] = e.width;
  json["norm_topk_prob"] = e.normalise;
  json["decoder_sparse_step"] = e.sparse_step;
  json["mlp_only_layers"] = e.dense_layers;
  json["output_router_logits"] = e.balance;
  json["router_aux_loss_coef"] = e.balance_weight;
}

void check_experts(const ModelConfig& c, const std::string& what) {
  constexpr std::int64_t kMostMatrices = 1 << 18;
  const ExpertsConfig& e = c.experts;
  require(e.count >= 1 && e.count <= kMostMatrices / c.n_layers,
          "{}: num_experts is {}, from 1 to {} in each of {} layers was expected", what, e.count,
          kMostMatrices / c.n_layers, c.n_layers);
  require(e.per_token >= 1 && e.per_token <= e.count, "{}: num_experts_per_tok is {}, from 1 to {} was expected", what,
          e.per_token, e.count);
  require(e.width >= 1 && e.width <= 1 << 24, "{}: moe_intermediate_size is {}, from 1 to {} was expected", what,
          e.width, 1 << 24);
  require(e.sparse_step >= 1, "{}: decoder_sparse_step is {}, 1 or more was expected", what, e.sparse_step);
  require(std::isfinite(e.balance_weight) && e.balance_weight >= 0,
          "{}: router_aux_loss_coef is {}, 0 or more was expected", what, e.balance_weight);
}

}  // namespace

bool ExpertsConfig::sparse(std::int64_t i) const {
  return count > 0 && (i + 1) % sparse_step == 0 &&
         std::find(dense_layers.begin(), dense_layers.end(), i) == dense_layers.end();
}

void check_model_config(const ModelConfig& c, const std::string& what) {
  const auto count = [&](std::string_view name, std::int64_t value, std::int64_t most) {
    require(value >= 1 && value <= most, "{}: {} is {}, from 1 to {} was expected", what, name, value, most);
  };
  count("vocab_size", c.vocab_size, std::int64_t{1} << 24);
  count("hidden_size", c.hidden_size, std::int64_t{1} << 20);
  count("intermediate_size", c.intermediate_size, std::int64_t{1} << 24);
  count("num_hidden_layers", c.n_layers, kMostLayers);
  count("num_attention_heads", c.n_heads, 65536);
  count("num_key_value_heads", c.n_kv_heads, 65536);
  count("head_dim", c.head_dim, 65536);
  count("max_position_embeddings", c.max_position, kMaxTokens);
  require(c.n_heads % c.n_kv_heads == 0, "{}: {} attention heads do not divide into {} key and value heads", what,
          c.n_heads, c.n_kv_heads);
  require(c.head_dim % 2 == 0, "{}: head_dim is {}, rotary embedding needs an even one", what, c.head_dim);
  require(std::isfinite(c.rope_theta) && c.rope_theta > 0, "{}: rope_theta is {}, a positive number was expected", what,
          c.rope_theta);
  require(c.rms_norm_eps >= 0 && c.rms_norm_eps < 1, "{}: rms_norm_eps is {}, from 0 to 1 was expected", what,
          c.rms_norm_eps);
  if (c.model_type == "qwen3_moe") {
    check_experts(c, what);
  }
  std::vector<std::int64_t> ids = c.eos_ids;
  ids.push_back(c.bos_id.value_or(0));
  for (const std::int64_t id : ids) {
    require(id >= 0 && id < c.vocab_size, "{}: the special token {} is outside the vocabulary of {}", what, id,
            c.vocab_size);
  }
}

ModelConfig parse_model_config(const std::string& json_text, const std::string& what) {
  const Json json = parse_json(json_text, what);
  require(json.is_object(), "{}: must be a JSON object", what);
  const Fields f(json, what);
  ModelConfig c;
  c.raw_json = json_text;
  if (const Json* names = f.find("architectures")) {
    require(names->is_array() && !names->empty() && (*names)[0].is_string(), "{}: 'architectures' must list a name",
            what);
    c.architecture = (*names)[0].get<std::string>();
  }
  c.model_type = f.text("model_type", "");
  for (const ModelFamily& a : kModelFamilies) {
    if (c.architecture.empty() && c.model_type == a.model_type) {
      c.architecture = a.class_name;
    }
  }
  require(!c.architecture.empty(), "{}: neither 'architectures' nor a known 'model_type' says what this model is",
          what);
  c.vocab_size = f.integer("vocab_size");
  c.hidden_size = f.integer("hidden_size");
  c.intermediate_size = f.integer("intermediate_size");
  c.n_layers = f.integer("num_hidden_layers");
  c.n_heads = f.integer("num_attention_heads");
  c.n_kv_heads = f.integer("num_key_value_heads", c.n_heads);
  require(c.n_heads > 0, "{}: num_attention_heads is {}, from 1 to 65536 was expected", what, c.n_heads);
  if (f.find("head_dim") != nullptr) {
    c.head_dim = f.integer("head_dim");
  } else if (c.model_type == "qwen3") {
    c.head_dim = 128;  // of all its sizes, and what transformers takes where the file is silent
  } else {
    require(c.hidden_size % c.n_heads == 0, "{}: hidden_size {} does not divide into {} attention heads", what,
            c.hidden_size, c.n_heads);
    c.head_dim = c.hidden_size / c.n_heads;
  }
  c.rope_theta = f.number("rope_theta", c.rope_theta);
  const Json* rope = f.find("rope_parameters");
  rope = rope == nullptr ? f.find("rope_scaling") : rope;
  if (rope != nullptr) {
    require(rope->is_object(), "{}: the rotary parameters must be an object, found {}", what, json_line(*rope));
    const Fields r(*rope, what);
    c.rope_theta = r.number("rope_theta", c.rope_theta);
    if (r.text("rope_type", r.text("type", "default")) != "default") {
      c.rope_scaling = json_line(*rope);
    }
  }
  c.rms_norm_eps = f.number("rms_norm_eps", c.rms_norm_eps);
  c.max_position = f.integer("max_position_embeddings", c.max_position);
  c.tie_embeddings = f.boolean("tie_word_embeddings", false);
  c.attention_bias = f.boolean("attention_bias", c.model_type == "qwen2");
  c.mlp_bias = f.boolean("mlp_bias", false);
  c.hidden_act = f.text("hidden_act", c.hidden_act);
  if (c.model_type == "qwen3_moe") {
    c.experts = parse_experts(f);
  }
  c.sliding_window = f.boolean("use_sliding_window", true) ? f.integer("sliding_window", 0) : 0;
  c.dtype = dtype_of_text(f.text("dtype", f.text("torch_dtype", "")));
  if (const auto ids = f.ids("bos_token_id"); !ids.empty()) {
    c.bos_id = ids[0];
  }
  if (const auto ids = f.ids("pad_token_id"); !ids.empty()) {
    c.pad_id = ids[0];
  }
  add_ids(c.eos_ids, f.ids("eos_token_id"));
  check_model_config(c, what);
  return c;
}

void apply_generation_config(ModelConfig& config, const std::string& json_text, const std::string& what) {
  const Json json = parse_json(json_text, what);
  require(json.is_object(), "{}: must be a JSON object", what);
  add_ids(config.eos_ids, Fields(json, what).ids("eos_token_id"));
  config.generation_json = json_text;
  check_model_config(config, what);
}

std::string model_config_json(const ModelConfig& c) {
  Json json = Json::object();
  json["architectures"] = {c.architecture};
  json["model_type"] = c.model_type;
  json["vocab_size"] = c.vocab_size;
  json["hidden_size"] = c.hidden_size;
  json["intermediate_size"] = c.intermediate_size;
  json["num_hidden_layers"] = c.n_layers;
  json["num_attention_heads"] = c.n_heads;
  json["num_key_value_heads"] = c.n_kv_heads;
  json["head_dim"] = c.head_dim;
  json["hidden_act"] = c.hidden_act;
  json["max_position_embeddings"] = c.max_position;
  json["rms_norm_eps"] = c.rms_norm_eps;
  json["rope_theta"] = c.rope_theta;
  json["rope_scaling"] = c.rope_scaling.empty() ? Json() : parse_json(c.rope_scaling, "rope_scaling");
  if (c.experts.count > 0) {
    write_experts(c.experts, json);
  }
  json["attention_bias"] = c.attention_bias;
  json["mlp_bias"] = c.mlp_bias;
  json["tie_word_embeddings"] = c.tie_embeddings;
  if (c.bos_id) {
    json["bos_token_id"] = *c.bos_id;
  }
  if (!c.eos_ids.empty()) {
    json["eos_token_id"] = c.eos_ids.size() == 1 ? Json(c.eos_ids[0]) : Json(c.eos_ids);
  }
  if (c.pad_id) {
    json["pad_token_id"] = *c.pad_id;
  }
  const DType dtype = c.dtype.value_or(DType::f32);
  json["torch_dtype"] = dtype == DType::bf16 ? "bfloat16" : dtype == DType::f16 ? "float16" : "float32";
  json["use_cache"] = true;
  return json_pretty(json) + "\n";
}

}  // namespace isotone
