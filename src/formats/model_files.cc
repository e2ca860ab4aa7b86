// The two kinds of model on disk behind one interface.
#include "formats/model_files.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "formats/json_text.h"
#include "formats/sharded.h"

namespace isotone {
namespace {

constexpr std::size_t kMaxConfigBytes = std::size_t{16} << 20;
constexpr std::size_t kMaxTokenizerBytes = std::size_t{256} << 20;

std::string read_if_there(const std::string& path, std::size_t limit) {
  return path_exists(path) ? read_text_file(path, limit) : std::string();
}

/// tokenizer_config.json holds a text, or a list of {"name", "template"}.
std::string template_of_json(const std::string& text, const std::string& what) {
  if (text.empty()) {
    return {};
  }
  const Json json = parse_json(text, what);
  const auto it = json.is_object() ? json.find("chat_template") : json.end();
  if (!json.is_object() || it == json.end() || it->is_null()) {
    return {};
  }
  if (it->is_string()) {
    return it->get<std::string>();
  }
  require(it->is_array(), "{}: 'chat_template' must be a text or a list", what);
  std::string first;
  for (const Json& entry : *it) {
    require(entry.is_object() && entry.contains("name") && entry["name"].is_string() && entry.contains("template") &&
                entry["template"].is_string(),
            "{}: an entry of 'chat_template' needs the texts 'name' and 'template'", what);
    if (entry["name"] == "default") {
      return entry["template"].get<std::string>();
    }
    first = first.empty() ? entry["template"].get<std::string>() : first;
  }
  return first;
}

/// What the embedding's shape says must agree with the configuration, before anything is computed with either.
void check_embedding(const ModelFiles& model) {
  constexpr std::string_view kEmbedding = "model.embed_tokens.weight";
  if (!model.contains(kEmbedding)) {
    return;  // another architecture's names; its model file knows what it needs
  }
  const ModelConfig& c = model.config();
  const TensorView embedding = model.tensor(kEmbedding);
  const std::vector<std::int64_t> expected = {c.vocab_size, c.hidden_size};
  require(embedding.shape == expected, "{}: 'model.embed_tokens.weight' has the shape {}, the configuration says {}",
          model.path(), shape_text(embedding.shape), shape_text(expected));
}

class FolderModel : public ModelFiles {
 public:
  explicit FolderModel(const std::string& folder) : tensors_(folder) {
    path_ = folder;
    const auto at = [&](std::string_view name) { return join_path(folder, name); };
    config_ = parse_model_config(read_text_file(at("config.json"), kMaxConfigBytes), at("config.json"));
    if (const std::string text = read_if_there(at("generation_config.json"), kMaxConfigBytes); !text.empty()) {
      apply_generation_config(config_, text, at("generation_config.json"));
    }
    tokenizer_json_ = read_if_there(at("tokenizer.json"), kMaxTokenizerBytes);
    tokenizer_config_json_ = read_if_there(at("tokenizer_config.json"), kMaxConfigBytes);
    chat_template_ = read_if_there(at("chat_template.jinja"), kMaxConfigBytes);
    if (chat_template_.empty()) {
      chat_template_ = template_of_json(tokenizer_config_json_, at("tokenizer_config.json"));
    }
    if (chat_template_.empty()) {
      chat_template_ =
          template_of_json(read_if_there(at("chat_template.json"), kMaxConfigBytes), at("chat_template.json"));
    }
    if (!tensors_.contains("lm_head.weight")) {
      config_.tie_embeddings = true;
    }
    check_embedding(*this);
  }

  [[nodiscard]] std::vector<std::string> tensor_names() const override { return tensors_.names(); }
  [[nodiscard]] bool contains(std::string_view name) const override { return tensors_.contains(name); }
  [[nodiscard]] TensorView tensor(std::string_view name) const override { return tensors_.tensor(name); }
  void prefetch() const override {
    for (const auto& file : tensors_.files()) {
      file->prefetch();
    }
  }

 private:
  SafetensorsFolder tensors_;
};

class GgufModel : public ModelFiles {
 public:
  explicit GgufModel(const std::string& path) : gguf_(path) {
    path_ = path;
    try {
      config_ = model_config_of_gguf(gguf_);
      gguf_tokenizer_ = tokenizer_of_gguf(gguf_);
    } catch (const Error& error) {
      // Accessors of single values name the key but do not know the file.
      if (std::string_view(error.what()).starts_with(path)) {
        throw;
      }
      throw error.in(path);
    }
    chat_template_ = gguf_tokenizer_->chat_template;
    for (const GgufTensor& t : gguf_.tensors()) {
      std::string name = hugging_face_name(t.name);
      if (const std::size_t at = name.find(kExperts); at != std::string::npos) {
        add_experts(t, name, at + kExperts.size());
      } else if (!name.empty()) {
        names_.emplace(std::move(name), Place{t.name});
      }
    }
    check_embedding(*this);
  }

  [[nodiscard]] std::vector<std::string> tensor_names() const override {
    std::vector<std::string> names;
    for (const auto& entry : names_) {
      names.push_back(entry.first);
    }
    return names;
  }

  [[nodiscard]] bool contains(std::string_view name) const override { return names_.find(name) != names_.end(); }

  [[nodiscard]] TensorView tensor(std::string_view name) const override {
    const auto it = names_.find(name);
    if (it == names_.end()) {
      fail("{}: no tensor '{}' among its {}", path_, name, names_.size());
    }
    TensorView view = gguf_.tensor(it->second.name);
    view.name = it->first;
    if (it->second.expert >= 0) {
      const std::size_t bytes = view.data.size() / static_cast<std::size_t>(config_.experts.count);
      view.shape.erase(view.shape.begin());
      view.data = view.data.subspan(static_cast<std::size_t>(it->second.expert) * bytes, bytes);
    }
    const bool q = name.find(".self_attn.q_proj.") != std::string_view::npos;
    const bool k = name.find(".self_attn.k_proj.") != std::string_view::npos;
    if (config_.model_type == "llama" && (q || k)) {
      const std::int64_t heads = q ? config_.n_heads : config_.n_kv_heads;
      require(!view.shape.empty() && view.shape[0] == heads * config_.head_dim,
              "{}: tensor '{}' has the shape {}, {} rows were expected", path_, it->second.name, shape_text(view.shape),
              heads * config_.head_dim);
      auto copy =
          std::make_shared<const std::vector<std::byte>>(unpermute_rotary_rows(view.data, view.shape[0], heads));
      view.data = *copy;
      view.owner = std::move(copy);
    }
    return view;
  }

  void prefetch() const override { gguf_.prefetch(); }

 private:
  /// A tensor of the file, or one expert's part of it.
  struct Place {
    std::string name;
    std::int64_t expert = -1;
  };
  static constexpr std::string_view kExperts = ".mlp.experts.";
  static constexpr std::size_t kMostNames = std::size_t{1} << 20;

  /// The file has the matrices of all experts in one tensor, Hugging Face one by one: their number goes in at `at`.
  void add_experts(const GgufTensor& t, const std::string& name, std::size_t at) {
    const std::int64_t count = config_.experts.count;
    require(t.shape.size() == 3 && t.shape[0] == count,
            "{}: tensor '{}' has the shape {}, matrices of {} experts were expected", path_, t.name,
            shape_text(t.shape), count);
    // A small file may name many tensors, each of no bytes.
    require(names_.size() <= kMostNames, "{}: the experts have more than {} matrices", path_, kMostNames);
    for (std::int64_t x = 0; x < count; ++x) {
      names_.emplace(fmt::format("{}{}.{}", name.substr(0, at), x, name.substr(at)), Place{t.name, x});
    }
  }

  Gguf gguf_;
  std::map<std::string, Place, std::less<>> names_;  // by Hugging Face name
};

}  // namespace

GgufTokenizer tokenizer_of_gguf(const Gguf& gguf) {
  const auto text = [&](const char* key) {
    const GgufValue* value = gguf.find_metadata(key);
    return value == nullptr ? std::string() : std::string(value->as_text());
  };
  const auto id = [&](const char* key) -> std::optional<std::int64_t> {
    const GgufValue* value = gguf.find_metadata(key);
    return value == nullptr ? std::nullopt : std::optional(value->as_integer());
  };
  const auto flag = [&](const char* key) -> std::optional<bool> {
    const GgufValue* value = gguf.find_metadata(key);
    return value == nullptr ? std::nullopt : std::optional(value->as_boolean());
  };
  GgufTokenizer t;
  t.model = text("tokenizer.ggml.model");
  t.pre = text("tokenizer.ggml.pre");
  t.chat_template = text("tokenizer.chat_template");
  if (const GgufValue* tokens = gguf.find_metadata("tokenizer.ggml.tokens")) {
    t.tokens.assign(tokens->as_texts().begin(), tokens->as_texts().end());
  }
  if (const GgufValue* merges = gguf.find_metadata("tokenizer.ggml.merges")) {
    t.merges.assign(merges->as_texts().begin(), merges->as_texts().end());
  }
  const auto per_token = [&](const char* key, const auto& add) {
    const GgufValue* values = gguf.find_metadata(key);
    if (values == nullptr) {
      return;
    }
    require(values->type == GgufType::array && values->count == t.tokens.size(),
            "{}: '{}' must be an array with one entry for each of the {} tokens", gguf.path(), key, t.tokens.size());
    for (std::uint64_t i = 0; i < values->count; ++i) {
      add(values->at(i));
    }
  };
  per_token("tokenizer.ggml.scores",
            [&](const GgufValue& v) { t.scores.push_back(static_cast<float>(v.as_number())); });
  per_token("tokenizer.ggml.token_type",
            [&](const GgufValue& v) { t.types.push_back(static_cast<std::int32_t>(v.as_integer())); });
  t.bos_id = id("tokenizer.ggml.bos_token_id");
  t.eos_id = id("tokenizer.ggml.eos_token_id");
  t.unk_id = id("tokenizer.ggml.unknown_token_id");
  t.pad_id = id("tokenizer.ggml.padding_token_id");
  t.add_bos = flag("tokenizer.ggml.add_bos_token");
  t.add_eos = flag("tokenizer.ggml.add_eos_token");
  t.add_space_prefix = flag("tokenizer.ggml.add_space_prefix");
  for (const auto& special : {t.bos_id, t.eos_id, t.unk_id, t.pad_id}) {
    require(!special || (*special >= 0 && static_cast<std::uint64_t>(*special) < t.tokens.size()),
            "{}: the special token {} is outside the vocabulary of {}", gguf.path(), special.value_or(0),
            t.tokens.size());
  }
  return t;
}

std::string hugging_face_name(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kTop = {
      {{"token_embd.", "model.embed_tokens."}, {"output_norm.", "model.norm."}, {"output.", "lm_head."}}};
  constexpr std::array<std::pair<std::string_view, std::string_view>, 15> kBlock = {
      {{"attn_norm.", "input_layernorm."},
       {"ffn_norm.", "post_attention_layernorm."},
       {"attn_q.", "self_attn.q_proj."},
       {"attn_k.", "self_attn.k_proj."},
       {"attn_v.", "self_attn.v_proj."},
       {"attn_output.", "self_attn.o_proj."},
       {"attn_q_norm.", "self_attn.q_norm."},
       {"attn_k_norm.", "self_attn.k_norm."},
       {"ffn_gate.", "mlp.gate_proj."},
       {"ffn_up.", "mlp.up_proj."},
       {"ffn_down.", "mlp.down_proj."},
       {"ffn_gate_inp.", "mlp.gate."},
       {"ffn_gate_exps.", "mlp.experts.gate_proj."},
       {"ffn_up_exps.", "mlp.experts.up_proj."},
       {"ffn_down_exps.", "mlp.experts.down_proj."}}};
  const auto renamed = [](std::string_view text, const auto& table) -> std::string {
    for (const auto& [from, to] : table) {
      const std::string_view rest = text.starts_with(from) ? text.substr(from.size()) : std::string_view();
      if (rest == "weight" || rest == "bias") {
        return fmt::format("{}{}", to, rest);
      }
    }
    return {};
  };
  if (!name.starts_with("blk.")) {
    return renamed(name, kTop);
  }
  name.remove_prefix(4);
  unsigned layer = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  const auto digits = static_cast<std::size_t>(end - name.data());
  if (error != std::errc() || digits >= name.size() || name[digits] != '.') {
    return {};
  }
  const std::string rest = renamed(name.substr(digits + 1), kBlock);
  return rest.empty() ? rest : fmt::format("model.layers.{}.{}", layer, rest);
}

std::unique_ptr<ModelFiles> open_model(const std::string& path) {
  require(path_exists(path), "{}: no such file or folder; a model is a folder with config.json or a .gguf file", path);
  if (is_folder(path)) {
    require(path_exists(join_path(path, "config.json")), "{}: no config.json in this folder; is it a model?", path);
    return std::make_unique<FolderModel>(path);
  }
  require(!path.ends_with(".safetensors"), "{}: a model needs config.json too: name the folder instead", path);
  return std::make_unique<GgufModel>(path);
}

}  // namespace isotone
