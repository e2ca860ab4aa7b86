// Configuration and models on disk: spellings, sanity rules, names, row order, conversion, listings and hashes.
#include "formats/model_files.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "formats/convert.h"
#include "formats/dequantise.h"
#include "formats/file_builder_for_tests.h"
#include "formats/inspect.h"
#include "formats/sharded.h"

namespace isotone {
namespace {

using testing::bytes_of;
using testing::gguf_array;
using testing::gguf_text;
using testing::GgufBuilder;
using testing::message_of;
using testing::raw;

const std::string kRealModel = std::string(ISOTONE_SOURCE_DIR) + "/.cache/models/smollm2-135m-instruct.gguf";

const std::string kConfig =
    R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","vocab_size":4,"hidden_size":8,
 "intermediate_size":16,"num_hidden_layers":1,"num_attention_heads":2,"num_key_value_heads":1,"rope_theta":5e5,
 "rms_norm_eps":1e-5,"max_position_embeddings":128,"bos_token_id":1,"eos_token_id":[2,3],"torch_dtype":"bfloat16"})";

std::string f32_bytes(std::size_t n, float start) {
  std::string out;
  for (std::size_t i = 0; i < n; ++i) {
    out += raw(start + static_cast<float>(i));
  }
  return out;
}

/// Two heads of four, one key head, hidden 8, vocabulary 4; q's rows in the file's interleaved order.
GgufBuilder tiny_gguf() {
  GgufBuilder b;
  b.text("general.architecture", "llama").number("llama.block_count", 1).number("llama.context_length", 128);
  b.number("llama.embedding_length", 8).number("llama.feed_forward_length", 16);
  b.number("llama.attention.head_count", 2).number("llama.attention.head_count_kv", 1);
  b.real("llama.rope.freq_base", 10000.0F).real("llama.attention.layer_norm_rms_epsilon", 1e-5F);
  b.text("tokenizer.ggml.model", "gpt2")
      .text("tokenizer.ggml.pre", "smollm")
      .text("tokenizer.chat_template", "{{ x }}");
  std::string tokens;
  for (const char* t : {"a", "<s>", "</s>", "ab"}) {
    tokens += gguf_text(t);
  }
  b.add("tokenizer.ggml.tokens", GgufType::array, gguf_array(GgufType::text, 4, tokens));
  b.add("tokenizer.ggml.token_type", GgufType::array,
        gguf_array(GgufType::i32, 4,
                   raw<std::int32_t>(1) + raw<std::int32_t>(3) + raw<std::int32_t>(3) + raw<std::int32_t>(1)));
  b.add("tokenizer.ggml.merges", GgufType::array, gguf_array(GgufType::text, 1, gguf_text("a b")));
  b.number("tokenizer.ggml.bos_token_id", 1).number("tokenizer.ggml.eos_token_id", 2);
  b.add("tokenizer.ggml.add_bos_token", GgufType::boolean, std::string("\1"));
  b.tensor("token_embd.weight", {8, 4}, 0, f32_bytes(32, 0)).tensor("output_norm.weight", {8}, 0, f32_bytes(8, 0));
  b.tensor("blk.0.attn_q.weight", {8, 8}, 0, f32_bytes(64, 0))
      .tensor("blk.0.attn_k.weight", {8, 4}, 0, f32_bytes(32, 0));
  b.tensor("blk.0.attn_v.weight", {8, 4}, 0, f32_bytes(32, 0));
  b.tensor("unknown.thing", {1}, 0, f32_bytes(1, 0));
  return b;
}

class ModelFilesTest : public ::testing::Test {
 protected:
  ModelFilesTest() {
    std::string pattern = ::testing::TempDir() + "/isotone_model_XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~ModelFilesTest() override { remove_all(folder_); }
  [[nodiscard]] std::string at(const std::string& name) const { return join_path(folder_, name); }

  std::string folder_;
};

std::string changed(const std::string& from, const std::string& to) {
  std::string text = kConfig;
  const std::size_t place = text.find(from);
  EXPECT_NE(place, std::string::npos) << from;
  return text.replace(place, from.size(), to);
}

TEST(ModelConfigTest, ReadsBothSpellings) {
  const ModelConfig c = parse_model_config(kConfig, "c");
  EXPECT_EQ(c.architecture, "LlamaForCausalLM");
  EXPECT_EQ(c.head_dim, 4);
  EXPECT_EQ(c.n_kv_heads, 1);
  EXPECT_EQ(c.rope_theta, 5e5);
  EXPECT_EQ(c.eos_ids, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(c.dtype, DType::bf16);
  EXPECT_FALSE(c.tie_embeddings);
  const ModelConfig five = parse_model_config(
      changed("\"rope_theta\":5e5", R"("rope_parameters":{"rope_theta":7e5,"rope_type":"default"},"dtype":"float32")"),
      "c");
  EXPECT_EQ(five.rope_theta, 7e5);
  EXPECT_EQ(five.dtype, DType::f32);
  EXPECT_TRUE(five.rope_scaling.empty());
  const ModelConfig scaled =
      parse_model_config(changed("\"rope_theta\":5e5", R"("rope_scaling":{"type":"linear","factor":2.0})"), "c");
  EXPECT_FALSE(scaled.rope_scaling.empty());
  EXPECT_EQ(parse_model_config(changed("\"llama\"", "\"qwen3\""), "c").head_dim, 128);
  const ModelConfig again = parse_model_config(model_config_json(c), "again");
  EXPECT_EQ(model_config_json(again), model_config_json(c));
}

TEST(ModelConfigTest, SanityRulesOneByOne) {
  const auto refusal = [](const std::string& from, const std::string& to) {
    return message_of([&] { parse_model_config(changed(from, to), "c"); });
  };
  EXPECT_EQ(refusal("\"vocab_size\":4", "\"vocab_size\":0"), "c: vocab_size is 0, from 1 to 16777216 was expected");
  EXPECT_EQ(refusal("\"vocab_size\":4,", ""), "c: 'vocab_size' is missing");
  EXPECT_EQ(refusal("\"vocab_size\":4", "\"vocab_size\":\"4\""), "c: 'vocab_size' must be an integer, found \"4\"");
  EXPECT_EQ(refusal("\"vocab_size\":4", "\"vocab_size\":4.5"), "c: 'vocab_size' must be an integer, found 4.5");
  EXPECT_EQ(refusal("\"vocab_size\":4", "\"vocab_size\":18446744073709551615"),
            "c: 'vocab_size' must be an integer, found 18446744073709551615");
  EXPECT_EQ(refusal("_heads\":2", "_heads\":0"), "c: num_attention_heads is 0, from 1 to 65536 was expected");
  EXPECT_EQ(refusal("_heads\":2", "_heads\":3"), "c: hidden_size 8 does not divide into 3 attention heads");
  EXPECT_EQ(refusal("_value_heads\":1", "_value_heads\":0"),
            "c: num_key_value_heads is 0, from 1 to 65536 was expected");
  EXPECT_EQ(refusal("_heads\":2,\"num_key_value_heads\":1", "_heads\":4,\"num_key_value_heads\":3"),
            "c: 4 attention heads do not divide into 3 key and value heads");
  EXPECT_EQ(refusal("_heads\":2", "_heads\":8"), "c: head_dim is 1, rotary embedding needs an even one");
  EXPECT_EQ(refusal("\"num_hidden_layers\":1", "\"num_hidden_layers\":5000"),
            "c: num_hidden_layers is 5000, from 1 to 4096 was expected");
  EXPECT_EQ(refusal("5e5", "0"), "c: rope_theta is 0, a positive number was expected");
  EXPECT_EQ(refusal("1e-5", "2"), "c: rms_norm_eps is 2, from 0 to 1 was expected");
  EXPECT_EQ(refusal("[2,3]", "[2,4]"), "c: the special token 4 is outside the vocabulary of 4");
  EXPECT_EQ(refusal("[2,3]", "\"x\""), "c: 'eos_token_id' must be a token id or a list of them, found \"x\"");
  EXPECT_EQ(refusal("[\"LlamaForCausalLM\"]", "[]"), "c: 'architectures' must list a name");
  EXPECT_EQ(refusal("\"vocab_size\":4", "\"vocab_size\":4,\"vocab_size\":5"),
            "c: the key \"vocab_size\" stands twice in one object");
  EXPECT_EQ(message_of([] { parse_model_config("[]", "c"); }), "c: must be a JSON object");
}

TEST(ModelConfigTest, Experts) {
  const auto with = [](const std::string& fields) {
    return parse_model_config(changed("\"llama\"", "\"qwen3_moe\"," + fields + "\"head_dim\":4"), "c");
  };
  const ModelConfig silent = with("");
  EXPECT_EQ(silent.experts.count, 128);
  EXPECT_EQ(silent.experts.per_token, 8);
  EXPECT_EQ(silent.experts.width, 768);
  EXPECT_FALSE(silent.experts.normalise);
  EXPECT_EQ(with("\"num_local_experts\":16,").experts.count, 16);
  const ModelConfig c = with(
      R"("num_experts":9,"num_experts_per_tok":3,"moe_intermediate_size":5,"norm_topk_prob":true,"decoder_sparse_step":2,
         "mlp_only_layers":[3],"output_router_logits":true,"router_aux_loss_coef":0.25,)");
  std::string sparse;
  for (int i = 0; i < 8; ++i) {
    sparse += c.experts.sparse(i) ? 'x' : '-';
  }
  EXPECT_EQ(sparse, "-x---x-x");
  const ModelConfig again = parse_model_config(model_config_json(c), "again");
  EXPECT_EQ(model_config_json(again), model_config_json(c));
  EXPECT_EQ(again.experts.balance_weight, 0.25);
  EXPECT_FALSE(parse_model_config(kConfig, "c").experts.sparse(0));
  const auto refusal = [&](const std::string& fields) { return message_of([&] { with(fields); }); };
  EXPECT_EQ(refusal("\"num_experts\":0,"), "c: num_experts is 0, from 1 to 262144 in each of 1 layers was expected");
  EXPECT_EQ(refusal("\"num_experts\":4611686018427387904,"),
            "c: num_experts is 4611686018427387904, from 1 to 262144 in each of 1 layers was expected");
  EXPECT_EQ(refusal("\"num_experts\":4,\"num_experts_per_tok\":5,"),
            "c: num_experts_per_tok is 5, from 1 to 4 was expected");
  EXPECT_EQ(refusal("\"moe_intermediate_size\":-1,"),
            "c: moe_intermediate_size is -1, from 1 to 16777216 was expected");
  EXPECT_EQ(refusal("\"decoder_sparse_step\":0,"), "c: decoder_sparse_step is 0, 1 or more was expected");
  EXPECT_EQ(refusal("\"router_aux_loss_coef\":-1,"), "c: router_aux_loss_coef is -1, 0 or more was expected");
  EXPECT_EQ(refusal("\"mlp_only_layers\":[-1],"), "c: 'mlp_only_layers' must be a layer or a list of them, found [-1]");
}

TEST(ModelNames, GgufToHuggingFace) {
  EXPECT_EQ(hugging_face_name("token_embd.weight"), "model.embed_tokens.weight");
  EXPECT_EQ(hugging_face_name("output_norm.weight"), "model.norm.weight");
  EXPECT_EQ(hugging_face_name("output.weight"), "lm_head.weight");
  EXPECT_EQ(hugging_face_name("blk.12.ffn_down.weight"), "model.layers.12.mlp.down_proj.weight");
  EXPECT_EQ(hugging_face_name("blk.0.attn_q.bias"), "model.layers.0.self_attn.q_proj.bias");
  EXPECT_EQ(hugging_face_name("blk.3.attn_q_norm.weight"), "model.layers.3.self_attn.q_norm.weight");
  EXPECT_EQ(hugging_face_name("blk.3.ffn_gate_inp.weight"), "model.layers.3.mlp.gate.weight");
  for (const char* name : {"blk.", "blk.x.ffn_up.weight", "blk.1", "blk.1ffn_up.weight",
                           "blk.99999999999.ffn_up.weight", "output.weights", "rope_freqs.weight", ""}) {
    EXPECT_EQ(hugging_face_name(name), "") << name;
  }
}

TEST_F(ModelFilesTest, OpensAFolder) {
  write_file_atomic(at("config.json"), kConfig);
  write_file_atomic(at("generation_config.json"), R"({"eos_token_id":[0,2]})");
  write_file_atomic(at("tokenizer.json"), "{\"t\":1}");
  write_file_atomic(at("tokenizer_config.json"),
                    R"({"chat_template":[{"name":"tool","template":"T"},{"name":"default","template":"D"}]})");
  const std::string data = f32_bytes(32, 0);
  save_safetensors(at("model.safetensors"),
                   {{{"model.embed_tokens.weight", DType::f32, {4, 8}}, bytes_of(data), nullptr}});
  const auto model = open_model(folder_);
  EXPECT_FALSE(model->is_gguf());
  EXPECT_EQ(model->config().eos_ids, (std::vector<std::int64_t>{2, 3, 0}));
  EXPECT_TRUE(model->config().tie_embeddings);  // there is no lm_head
  EXPECT_EQ(model->chat_template(), "D");
  EXPECT_EQ(model->tokenizer_json(), "{\"t\":1}");
  EXPECT_EQ(model->tensor_names(), std::vector<std::string>{"model.embed_tokens.weight"});
  model->prefetch();
  write_file_atomic(at("chat_template.jinja"), "J");
  EXPECT_EQ(open_model(folder_)->chat_template(), "J");
  write_file_atomic(at("config.json"), changed("\"vocab_size\":4", "\"vocab_size\":5"));
  EXPECT_EQ(message_of([&] { open_model(folder_); }),
            folder_ + ": 'model.embed_tokens.weight' has the shape [4, 8], the configuration says [5, 8]");
}

TEST_F(ModelFilesTest, RefusesWhatIsNoModel) {
  EXPECT_EQ(message_of([&] { open_model(at("none")); }),
            at("none") + ": no such file or folder; a model is a folder with config.json or a .gguf file");
  EXPECT_EQ(message_of([&] { open_model(folder_); }), folder_ + ": no config.json in this folder; is it a model?");
  write_file_atomic(at("config.json"), kConfig);
  EXPECT_EQ(message_of([&] { open_model(folder_); }), folder_ + ": no .safetensors file in this folder");
  EXPECT_EQ(message_of([&] { open_model(at("config.json")); }),
            at("config.json") + ": not a GGUF file: it does not begin with 'GGUF'");
}

TEST_F(ModelFilesTest, OpensAGgufAndConvertsIt) {
  write_file_atomic(at("m.gguf"), tiny_gguf().build());
  const auto model = open_model(at("m.gguf"));
  const ModelConfig& c = model->config();
  EXPECT_EQ(c.vocab_size, 4);
  EXPECT_EQ(c.head_dim, 4);
  EXPECT_EQ(c.rms_norm_eps, 1e-5);
  EXPECT_TRUE(c.tie_embeddings);
  EXPECT_EQ(model->tensor_names().size(), 5U);
  EXPECT_EQ(parse_model_config(c.raw_json, "raw").hidden_size, 8);
  const GgufTokenizer& t = *model->gguf_tokenizer();
  EXPECT_EQ(t.tokens[3], "ab");
  EXPECT_EQ(t.types[1], 3);
  EXPECT_EQ(t.merges[0], "a b");
  EXPECT_EQ(t.add_bos, true);
  EXPECT_FALSE(t.add_eos.has_value());
  // Head 0: file rows 0 1 2 3 are Hugging Face rows 0 2 1 3.
  const std::vector<float> q = dequantise(model->tensor("model.layers.0.self_attn.q_proj.weight"));
  EXPECT_EQ(q[8], 16.0F);
  EXPECT_EQ(q[16], 8.0F);
  EXPECT_EQ(q[40], 48.0F);
  const std::vector<float> v = dequantise(model->tensor("model.layers.0.self_attn.v_proj.weight"));
  EXPECT_EQ(v[8], 8.0F);

  ConvertOptions options;
  options.tokenizer_json = [](const GgufTokenizer& tok) {
    return "{\"tokens\":" + std::to_string(tok.tokens.size()) + "}";
  };
  convert_gguf_to_hf(at("m.gguf"), at("out"), options);
  const auto back = open_model(at("out"));
  EXPECT_EQ(back->tokenizer_json(), "{\"tokens\":4}");
  EXPECT_EQ(back->chat_template(), "{{ x }}");
  EXPECT_EQ(back->tensor_names(), model->tensor_names());
  for (const std::string& name : back->tensor_names()) {
    EXPECT_EQ(dequantise(back->tensor(name)), dequantise(model->tensor(name))) << name;
  }
  EXPECT_EQ(back->config().rope_theta, c.rope_theta);
  EXPECT_EQ(back->config().eos_ids, c.eos_ids);
  EXPECT_EQ(message_of([&] { convert_gguf_to_hf(at("m.gguf"), at("out")); }),
            at("out") + ": already there; name a new or empty folder");
  options.dtype = DType::q8_0;
  EXPECT_EQ(message_of([&] { convert_gguf_to_hf(at("m.gguf"), at("out2"), options); }),
            "cannot convert to q8_0: choose f32, bf16 or f16");
  EXPECT_EQ(list_folder(folder_).size(), 2U);
}

TEST_F(ModelFilesTest, GgufConfigurationBroken) {
  const auto refusal = [&](const std::function<void(GgufBuilder&)>& change) {
    GgufBuilder b = tiny_gguf();
    change(b);
    write_file_atomic(at("m.gguf"), b.build());
    return message_of([&] { open_model(at("m.gguf")); });
  };
  const std::string p = at("m.gguf") + ": ";
  EXPECT_EQ(refusal([](GgufBuilder&) {}), "(no error)");
  EXPECT_EQ(refusal([](GgufBuilder& b) {
              b.metadata[0] = testing::gguf_entry("general.architecture", GgufType::text, gguf_text("mamba"));
            }),
            p + "the architecture 'mamba' is not known; known are llama, qwen2, qwen3 and qwen3moe");
  EXPECT_EQ(refusal([](GgufBuilder& b) { b.metadata.erase(b.metadata.begin() + 1); }),
            p + "the metadata 'llama.block_count' is missing");
  EXPECT_EQ(refusal([](GgufBuilder& b) {
              b.metadata[3] = testing::gguf_entry("llama.embedding_length", GgufType::u32, raw(16U));
            }),
            p + "embeddings are 8 wide, llama.embedding_length says 16");
  EXPECT_EQ(refusal([](GgufBuilder& b) {
              b.metadata[5] = testing::gguf_entry("llama.attention.head_count", GgufType::u32, raw(0U));
            }),
            p + "llama.attention.head_count is 0");
  EXPECT_EQ(refusal([](GgufBuilder& b) {
              b.metadata[1] = testing::gguf_entry("llama.block_count", GgufType::f32, raw(1.0F));
            }),
            p + "GGUF metadata 'llama.block_count' is f32, an integer was expected");
  EXPECT_EQ(refusal([](GgufBuilder& b) { b.number("llama.expert_count", 8); }),
            p + "experts are not supported in GGUF files of 'llama'");
  EXPECT_EQ(refusal([](GgufBuilder& b) { b.number("tokenizer.ggml.padding_token_id", 99); }),
            p + "the special token 99 is outside the vocabulary of 4");
  EXPECT_EQ(refusal([](GgufBuilder& b) {
              b.add("tokenizer.ggml.scores", GgufType::array, gguf_array(GgufType::f32, 1, raw(0.0F)));
            }),
            p + "'tokenizer.ggml.scores' must be an array with one entry for each of the 4 tokens");
}

TEST_F(ModelFilesTest, InspectAndHash) {
  write_file_atomic(at("m.gguf"), tiny_gguf().build());
  const Inspection in = describe(at("m.gguf"));
  EXPECT_EQ(in.format, "GGUF v3");
  EXPECT_EQ(in.tensors.size(), 6U);
  EXPECT_EQ(in.parameters, 32U + 8 + 64 + 32 + 32 + 1);
  EXPECT_EQ(in.tensor_bytes, in.parameters * 4);
  EXPECT_EQ(in.tensors[0].name, "blk.0.attn_k.weight");
  EXPECT_NE(to_json(in).find("\"general.architecture\": \"llama\""), std::string::npos);
  EXPECT_NE(to_text(in).find("6 tensors of F32: 676 B"), std::string::npos);

  // The hash does not see sharding, metadata or file order; it does see names, values and shapes.
  const std::vector<TensorSpec> specs = {{"a", DType::f32, {4}}, {"b", DType::f32, {2, 2}}};
  const std::string content(16, 'x');
  const auto source = [&](const TensorSpec&) { return bytes_of(content); };
  write_safetensors_folder(at("one"), specs, source);
  write_safetensors_folder(at("two"), specs, source, {{"k", "v"}}, 16);
  const std::string hash = sha256_of_tensors(at("one"));
  EXPECT_EQ(hash.size(), 64U);
  EXPECT_EQ(hash, sha256_of_tensors(at("two")));
  EXPECT_EQ(hash, sha256_of_tensors(at("one/model.safetensors")));
  write_safetensors_folder(at("three"), {{"a", DType::f32, {2, 2}}, {"b", DType::f32, {2, 2}}}, source);
  EXPECT_NE(hash, sha256_of_tensors(at("three")));
  write_safetensors_folder(at("four"), {{"a", DType::f32, {4}}, {"c", DType::f32, {2, 2}}}, source);
  EXPECT_NE(hash, sha256_of_tensors(at("four")));
  EXPECT_EQ(describe(at("two")).format, "folder of safetensors");
  EXPECT_EQ(describe(at("two")).tensors[1].file, "model-00002-of-00002.safetensors");
}

TEST_F(ModelFilesTest, HostileNamesDoNotReachTheTerminal) {
  GgufBuilder b;
  b.text("k\x1b[2J", "v\x07")
      .tensor("t\x1b]0;x\x07", {1}, 0, "1234")
      .tensor(
          "\xc2\x9b"
          "31m",
          {1}, 0, "1234");
  write_file_atomic(at("m.gguf"), b.build());
  const std::string text = to_text(describe(at("m.gguf")));
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find('\x07'), std::string::npos);
  EXPECT_EQ(text.find("\xc2\x9b"), std::string::npos);
  EXPECT_NE(text.find("\\x1b[2J"), std::string::npos);
}

TEST(RealModel, SmolLm2) {
  ASSERT_TRUE(path_exists(kRealModel)) << kRealModel << " is not there (make setup)";
  const auto model = open_model(kRealModel);
  const ModelConfig& c = model->config();
  EXPECT_EQ(c.n_layers, 30);
  EXPECT_EQ(c.hidden_size, 576);
  EXPECT_EQ(c.n_heads, 9);
  EXPECT_EQ(c.n_kv_heads, 3);
  EXPECT_EQ(c.rope_theta, 100000.0);
  EXPECT_EQ(c.rms_norm_eps, 1e-5);
  EXPECT_EQ(model->tensor_names().size(), 272U);
  EXPECT_EQ(model->gguf_tokenizer()->tokens.size(), 49152U);
  EXPECT_EQ(model->gguf_tokenizer()->merges.size(), 48900U);
  for (const std::string& name : model->tensor_names()) {
    const TensorView t = model->tensor(name);
    EXPECT_EQ(t.data.size(), t.bytes());
  }
  EXPECT_EQ(model->tensor("model.layers.29.self_attn.q_proj.weight").dtype, DType::q4_1);
  EXPECT_EQ(model->tensor("model.embed_tokens.weight").dtype, DType::q8_0);
}

}  // namespace
}  // namespace isotone
