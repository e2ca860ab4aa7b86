// Wrong calls: every operation refuses wrong shapes, dtypes and numbers when it is called, in a message that starts
// with its name and says what was found.
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "base/error.h"
#include "ops/functions.h"

namespace isotone::ops {
namespace {

/// A value of a written type: "f32[2, 3]".
Value t(std::string_view text) {
  const std::size_t open = text.find('[');
  Shape shape;
  std::string number;
  for (const char c : text.substr(open + 1)) {
    if (c >= '0' && c <= '9') {
      number += c;
    } else if (!number.empty()) {
      shape.push_back(std::stoll(number));
      number.clear();
    }
  }
  return ir::leaf({parse_dtype(text.substr(0, open)), std::move(shape)}, nullptr);
}

struct Wrong {
  const char* op;
  std::function<void()> call;
  std::vector<const char*> says;  // parts of the message
};

std::vector<Wrong> binary_calls(const char* op, Value (*f)(const Value&, const Value&), bool floats) {
  std::vector<Wrong> out = {
      {op, [f] { f(t("f32[2, 3]"), t("f32[2, 4]")); }, {"[2, 3]", "[2, 4]"}},
      {op, [f] { f(t("f32[2, 3]"), t("bf16[3]")); }, {"f32[2, 3]", "bf16[3]", "cast()"}},
      {op, [f] { f(t("f32[2, 3]"), Value()); }, {"missing"}},
  };
  if (floats) {
    out.push_back({op, [f] { f(t("i32[2]"), t("i32[2]")); }, {"i32[2]"}});
  }
  return out;
}

std::vector<Wrong> wrong_calls() {
  std::vector<Wrong> all;
  const auto add_all = [&](const std::vector<Wrong>& more) { all.insert(all.end(), more.begin(), more.end()); };
  using Binary = Value (*)(const Value&, const Value&);
  for (const auto& [op, f] : std::vector<std::pair<const char*, Binary>>{{"add", add},
                                                                         {"sub", sub},
                                                                         {"mul", mul},
                                                                         {"div", div},
                                                                         {"pow", pow},
                                                                         {"maximum", maximum},
                                                                         {"minimum", minimum}}) {
    add_all(binary_calls(op, f, true));
  }
  for (const auto& [op, f] :
       std::vector<std::pair<const char*, Binary>>{{"equal", equal}, {"less", less}, {"less_equal", less_equal}}) {
    add_all(binary_calls(op, f, false));
  }
  using Unary = Value (*)(const Value&);
  for (const auto& [op, f] : std::vector<std::pair<const char*, Unary>>{{"abs", abs},
                                                                        {"cos", cos},
                                                                        {"erf", erf},
                                                                        {"exp", exp},
                                                                        {"gelu_erf", gelu_erf},
                                                                        {"gelu_tanh", gelu_tanh},
                                                                        {"log", log},
                                                                        {"neg", neg},
                                                                        {"relu", relu},
                                                                        {"rsqrt", rsqrt},
                                                                        {"sigmoid", sigmoid},
                                                                        {"silu", silu},
                                                                        {"sin", sin},
                                                                        {"sqrt", sqrt},
                                                                        {"tanh", tanh}}) {
    add_all({{op, [f = f] { f(t("i32[2, 3]")); }, {"i32[2, 3]", "cast()"}},
             {op, [f = f] { f(t("bool[2, 3]")); }, {"bool[2, 3]"}}});
  }
  using Reduction = Value (*)(const Value&, Ints, bool);
  for (const auto& [op, f] : std::vector<std::pair<const char*, Reduction>>{
           {"sum", sum}, {"mean", mean}, {"max", max}, {"min", min}, {"var", var}, {"logsumexp", logsumexp}}) {
    add_all({{op, [f = f] { f(t("f32[2, 3]"), {2}, false); }, {"axis 2"}},
             {op, [f = f] { f(t("f32[2, 3]"), {-3}, false); }, {"axis -3"}},
             {op,
              [f = f] {
                f(t("f32[2, 3]"), {1, -1}, false);
              },
              {"twice"}},
             {op, [f = f] { f(t("i32[2, 3]"), {}, false); }, {"i32[2, 3]"}}});
  }
  add_all({
      {"adamw", [] { adamw(t("f32[3]"), t("f32[3]"), t("f32[3]"), t("f32[4]"), t("f32[8]")); }, {"f32[3]", "f32[4]"}},
      {"adamw", [] { adamw(t("f32[3]"), t("f32[3]"), t("f32[3]"), t("f32[3]"), t("f32[7]")); }, {"f32[7]"}},
      {"argmax", [] { argmax(t("f32[2]"), 1); }, {"axis 1"}},
      {"argmin", [] { argmin(t("i64[2]"), 0); }, {"i64[2]"}},
      {"attention",
       [] { attention(t("f32[1, 4, 3, 8]"), t("f32[1, 4, 2, 8]"), t("f32[1, 4, 2, 8]"), {}, 1.0); },
       {"3", "2"}},
      {"attention",
       [] { attention(t("f32[1, 4, 2, 8]"), t("f32[1, 4, 2, 6]"), t("f32[1, 4, 2, 6]"), {}, 1.0); },
       {"f32[1, 4, 2, 8]", "f32[1, 4, 2, 6]"}},
      {"attention",
       [] { attention(t("f32[1, 4, 2, 8]"), t("bf16[1, 4, 2, 8]"), t("f32[1, 4, 2, 8]"), {}, 1.0); },
       {"f32[1, 4, 2, 8]", "bf16[1, 4, 2, 8]"}},
      {"attention",
       [] { attention(t("f32[1, 4, 2, 8]"), t("f32[1, 4, 2, 8]"), t("f32[1, 4, 2, 8]"), t("f32[1, 4]"), 1.0); },
       {"f32[1, 4]"}},
      {"attention_grad", [] { attention_grad({t("f32[1, 4, 2, 8]")}, 1.0, true, 0); }, {}},
      {"avg_pool2d",
       [] {
         avg_pool2d(t("f32[2, 3]"), {2, 2}, {1, 1});
       },
       {"f32[2, 3]"}},
      {"avg_pool2d",
       [] {
         avg_pool2d(t("f32[1, 1, 2, 2]"), {3, 3}, {1, 1});
       },
       {"3", "2"}},
      {"broadcast_to",
       [] {
         broadcast_to(t("f32[2, 3]"), {2, 4});
       },
       {"[2, 3]", "[2, 4]"}},
      {"broadcast_to", [] { broadcast_to(t("f32[2, 3]"), {3}); }, {"[2, 3]", "[3]"}},
      {"cache_write",
       [] { cache_write(t("f32[4, 2, 8, 16]"), t("f32[1, 1, 3, 16]"), t("i32[1, 3]"), t("i32[1, 1]")); },
       {"f32[4, 2, 8, 16]", "f32[1, 1, 3, 16]"}},
      {"cast", [] { cast(t("f32[2]"), DType::q8_0); }, {"q8_0"}},
      {"cast", [] { cast(t("f32[2]"), static_cast<DType>(77)); }, {"dtype 77"}},
      {"clamp", [] { clamp(t("i32[2]"), 0.0, 1.0); }, {"i32[2]"}},
      {"concat",
       [] {
         concat({t("f32[2, 3]"), t("f32[2, 4]")}, 0);
       },
       {"f32[2, 3]", "f32[2, 4]"}},
      {"concat",
       [] {
         concat({t("f32[2, 3]"), t("f32[3]")}, 0);
       },
       {"f32[2, 3]", "f32[3]"}},
      {"concat",
       [] {
         concat({t("f32[2, 3]"), t("bf16[2, 3]")}, 0);
       },
       {"f32[2, 3]", "bf16[2, 3]"}},
      {"concat", [] { concat({}, 0); }, {"at least one"}},
      {"contract",
       [] { contract(t("f32[2, 3]"), t("f32[4, 5]"), "mk,nk->mn", DType::f32); },
       {"k", "f32[2, 3]", "f32[4, 5]"}},
      {"contract",
       [] { contract(t("f32[2, 3]"), t("bf16[4, 3]"), "mk,nk->mn", DType::f32); },
       {"f32[2, 3]", "bf16[4, 3]"}},
      {"contract", [] { contract(t("f32[2, 3]"), t("f32[4, 3]"), "mk,nk", DType::f32); }, {"mk,nk"}},
      {"contract", [] { contract(t("f32[2, 3]"), t("f32[4, 3]"), "mkx,nk->mn", DType::f32); }, {"mkx"}},
      {"contract", [] { contract(t("f32[2, 3]"), t("f32[4, 3]"), "mk,nk->mz", DType::f32); }, {"z"}},
      {"contract", [] { contract(t("f32[2, 2]"), t("f32[4, 2]"), "kk,nk->n", DType::f32); }, {"k"}},
      {"contract", [] { contract(t("f32[2, 64]"), t("q8_0[4, 64]"), "mk,kn->mn", DType::f32); }, {}},
      {"conv2d", [] { conv2d(t("f32[1, 3, 5, 5]"), t("f32[2, 2, 3, 3]")); }, {"f32[1, 3, 5, 5]", "f32[2, 2, 3, 3]"}},
      {"conv2d", [] { conv2d(t("f32[1, 3, 5, 5]"), t("bf16[2, 3, 3, 3]")); }, {"f32[1, 3, 5, 5]", "bf16[2, 3, 3, 3]"}},
      {"conv2d",
       [] {
         conv2d(t("f32[1, 3, 5, 5]"), t("f32[2, 3, 3, 3]"), {0, 1});
       },
       {"stride"}},
      {"conv2d", [] { conv2d(t("f32[1, 3, 5, 5]"), t("f32[2, 3, 3, 3]"), {1}); }, {}},
      {"cross_entropy", [] { cross_entropy(t("f32[2, 5]"), t("i32[3]")); }, {"f32[2, 5]", "i32[3]"}},
      {"cross_entropy", [] { cross_entropy(t("f32[2, 5]"), t("f32[2]")); }, {"f32[2]"}},
      {"cross_entropy_grad",
       [] { cross_entropy_grad(t("f32[2, 5]"), t("f32[2]"), t("i32[2]"), t("f32[3]")); },
       {"f32[3]"}},
      {"cumsum", [] { cumsum(t("f32[2, 5]"), 2); }, {"axis 2"}},
      {"dropout", [] { dropout(t("f32[2]"), t("i64[]"), 1.5, 1, "d"); }, {"1.5"}},
      {"dropout", [] { dropout(t("f32[2]"), t("f32[]"), 0.5, 1, "d"); }, {"i64 scalar", "f32[]"}},
      {"dropout", [] { dropout(t("f32[2]"), t("i64[]"), -0.25, 1, "d"); }, {"-0.25", "[0, 1)"}},
      {"dropout", [] { dropout(t("f32[2]"), t("i64[]"), 1.0, 1, "d"); }, {"rate 1 ", "[0, 1)"}},
      {"embedding", [] { embedding(t("f32[4, 3]"), t("f32[2]"), DType::f32); }, {"f32[2]"}},
      {"embedding", [] { embedding(t("f32[4]"), t("i32[2]"), DType::f32); }, {"f32[4]"}},
      {"embedding_grad", [] { embedding_grad(t("i32[2, 3]"), t("f32[2, 4, 5]"), 7); }, {"i32[2, 3]", "f32[2, 4, 5]"}},
      {"exact_sum", [] { exact_sum({t("bf16[2]")}); }, {"bf16[2]"}},
      {"expert_combine",
       [] { expert_combine(t("f32[1, 4, 2, 8]"), t("f32[1, 4, 3]")); },
       {"f32[1, 4, 2, 8]", "f32[1, 4, 3]"}},
      {"expert_linear",
       [] { expert_linear(t("f32[1, 4, 2, 8]"), t("f32[3, 5, 7]"), t("i32[1, 4, 2]")); },
       {"f32[3, 5, 7]", "f32[1, 4, 2, 8]"}},
      {"expert_linear",
       [] { expert_linear(t("f32[1, 4, 2, 8]"), t("f32[3, 5, 8]"), t("i32[1, 4]")); },
       {"f32[1, 4, 2, 8]", "i32[1, 4]"}},
      {"expert_linear_grad",
       [] { expert_linear_grad(t("f32[1, 4, 2, 8]"), t("f32[1, 4, 3, 5]"), t("i32[1, 4, 2]"), 3); },
       {"f32[1, 4, 3, 5]", "i32[1, 4, 2]"}},
      {"expert_linear_grad",
       [] { expert_linear_grad(t("f32[1, 4, 2, 8]"), t("f32[1, 4, 2, 5]"), t("i32[1, 4, 2]"), -3); },
       {"-3"}},
      {"fan_in",
       [] {
         fan_in({t("f32[2]"), t("f32[3]")}, DType::f32);
       },
       {"f32[2]", "f32[3]"}},
      {"fold",
       [] {
         fold(t("f32[1, 5, 2, 4]"), 3, 3, {2, 2}, {1, 1}, {0, 0}, {1, 1});
       },
       {"f32[1, 5, 2, 4]"}},
      {"full", [] { full({-1}, 0.0); }, {"[-1]"}},
      {"full", [] { full({32}, 0.0, DType::q4_0); }, {"q4_0"}},
      {"gather", [] { gather(t("f32[3, 4]"), t("i32[2, 5]"), 0); }, {"f32[3, 4]", "i32[2, 5]"}},
      {"gather", [] { gather(t("f32[3, 4]"), t("f32[2, 4]"), 0); }, {"f32[2, 4]"}},
      {"iota",
       [] {
         iota({2, 3}, 2);
       },
       {"axis 2"}},
      {"iota",
       [] {
         iota({2, -3}, 0);
       },
       {"[2, -3]"}},
      {"iota",
       [] {
         iota({1 << 30, 1 << 30}, 0);
       },
       {"[1073741824, 1073741824]"}},
      {"layer_norm", [] { layer_norm(t("f32[2, 5]"), t("f32[4]"), t("f32[5]"), 1e-5); }, {"f32[2, 5]", "f32[4]"}},
      {"log_softmax", [] { log_softmax(t("f32[]")); }, {"f32[]"}},
      {"logical_and", [] { logical_and(t("f32[2]"), t("bool[2]")); }, {"bool"}},
      {"logical_or", [] { logical_or(t("bool[2]"), t("bool[3]")); }, {"[2]", "[3]"}},
      {"logical_not", [] { logical_not(t("f32[2]")); }, {"f32[2]"}},
      {"max_pool2d",
       [] {
         max_pool2d(t("f32[1, 2, 4]"), {2, 2}, {1, 1});
       },
       {"f32[1, 2, 4]"}},
      {"one_hot", [] { one_hot(t("f32[2]"), 4); }, {"f32[2]"}},
      {"pad",
       [] {
         pad(t("f32[2, 3]"), {1}, {1, 1});
       },
       {"f32[2, 3]"}},
      {"pad",
       [] {
         pad(t("f32[2, 3]"), {-3, 0}, {0, 0});
       },
       {}},
      {"paged_attention",
       [] {
         paged_attention(t("f32[1, 1, 4, 8]"), t("f32[3, 2, 16, 8]"), t("f32[3, 2, 16, 8]"), t("f32[1, 2]"),
                         t("i32[1, 1]"), 1.0);
       },
       {"f32[1, 2]"}},
      {"random_bernoulli", [] { random_bernoulli(t("i64[]"), {-2}, 0.5, 1, "r"); }, {"[-2]"}},
      {"random_bernoulli", [] { random_bernoulli(t("i64[]"), {2}, 1.5, 1, "r"); }, {"1.5"}},
      {"random_bernoulli", [] { random_bernoulli(t("i64[]"), {2}, -0.5, 1, "r"); }, {"-0.5", "[0, 1]"}},
      {"random_normal", [] { random_normal(t("f32[]"), {2}, 1, "r"); }, {"i64"}},
      {"random_uniform", [] { random_uniform(t("i64[1]"), {2}, 1, "r"); }, {"i64"}},
      {"paged_attention",
       [] {
         paged_attention(t("i32[1, 1, 4, 8]"), t("i32[3, 2, 16, 8]"), t("i32[3, 2, 16, 8]"), t("i32[1, 2]"),
                         t("i32[1, 1]"), 1.0);
       },
       {"i32[1, 1, 4, 8]"}},
      {"reshape",
       [] {
         reshape(t("f32[2, 3]"), {4, 2});
       },
       {"f32[2, 3]", "[4, 2]"}},
      {"reshape",
       [] {
         reshape(t("f32[2, 3]"), {-1, -1});
       },
       {"[-1, -1]"}},
      {"reshape",
       [] {
         reshape(t("f32[2, 3]"), {-1, 4});
       },
       {"f32[2, 3]"}},
      {"reshape",
       [] {
         reshape(t("f32[0, 3]"), {-1, 0});
       },
       {}},
      {"rms_norm", [] { rms_norm(t("f32[2, 5]"), t("f32[4]"), 1e-5); }, {"f32[2, 5]", "f32[4]"}},
      {"rms_norm", [] { rms_norm(t("i32[2, 5]"), t("f32[5]"), 1e-5); }, {"i32[2, 5]"}},
      {"rms_norm_grad",
       [] { rms_norm_grad(t("f32[2, 5]"), t("f32[5]"), t("f32[2, 4]"), 1e-5); },
       {"f32[2, 5]", "f32[2, 4]"}},
      {"rope", [] { rope(t("f32[1, 4, 2, 8]"), t("f32[4, 3]"), t("f32[4, 3]")); }, {"f32[1, 4, 2, 8]", "f32[4, 3]"}},
      {"rope", [] { rope(t("f32[1, 4, 2, 7]"), t("f32[4, 3]"), t("f32[4, 3]")); }, {"f32[1, 4, 2, 7]"}},
      {"scatter_add",
       [] { scatter_add(t("f32[3, 4]"), t("i32[2, 4]"), t("f32[3, 4]"), 0); },
       {"i32[2, 4]", "f32[3, 4]"}},
      {"slice", [] { slice(t("f32[4]"), {0}, {5}); }, {"f32[4]"}},
      {"slice", [] { slice(t("f32[4]"), {3}, {2}); }, {}},
      {"slice", [] { slice(t("f32[4]"), {0}, {4}, {0}); }, {}},
      {"slice", [] { slice(t("f32[4, 4]"), {0}, {4}); }, {"f32[4, 4]"}},
      {"softmax", [] { softmax(t("i32[2, 3]")); }, {"i32[2, 3]"}},
      {"softmax", [] { softmax(t("f32[2, 3]"), 2); }, {"axis 2"}},
      {"softmax_grad", [] { softmax_grad(t("f32[2, 3]"), t("f32[2, 4]")); }, {"f32[2, 3]", "f32[2, 4]"}},
      {"sort", [] { sort(t("f32[2, 3]"), -3); }, {"axis -3"}},
      {"stop_gradient", [] { stop_gradient(Value()); }, {"missing"}},
      {"swiglu", [] { swiglu(t("f32[2, 3]"), t("f32[2, 4]")); }, {"f32[2, 3]", "f32[2, 4]"}},
      {"swiglu_grad", [] { swiglu_grad(t("f32[2, 3]"), t("f32[2, 3]"), t("bf16[2, 3]")); }, {"bf16[2, 3]"}},
      {"topk", [] { topk(t("f32[2, 3]"), 4); }, {"4", "f32[2, 3]"}},
      {"topk", [] { topk(t("f32[]"), 1); }, {"f32[]"}},
      {"transpose",
       [] {
         transpose(t("f32[2, 3]"), {0, 0});
       },
       {"[0, 0]"}},
      {"transpose", [] { transpose(t("f32[2, 3]"), {0}); }, {"f32[2, 3]"}},
      {"unfold",
       [] {
         unfold(t("f32[2, 3]"), {1, 1}, {1, 1}, {0, 0}, {1, 1});
       },
       {"f32[2, 3]"}},
      {"where", [] { where(t("f32[2]"), t("f32[2]"), t("f32[2]")); }, {"f32[2]"}},
      {"where", [] { where(t("bool[2]"), t("f32[2]"), t("bf16[2]")); }, {"f32[2]", "bf16[2]"}},
      {"where", [] { where(t("bool[3]"), t("f32[2]"), t("f32[2]")); }, {"[3]", "[2]"}},
  });
  const auto tree = [](Ints borders) {
    return Attrs{{"group", Ints{0, 1}},     {"me", std::int64_t{0}},       {"tag", std::int64_t{0}},
                 {"tree", std::int64_t{0}}, {"length", std::int64_t{576}}, {"borders", std::move(borders)},
                 {"shape", Shape{2, 3}},    {"dim", std::int64_t{1}},      {"cuts", Ints{0, 2, 4}}};
  };
  add_all({
      {"all_gather",
       [] {
         all_gather(t("f32[2, 3]"), 0, {0, 1, 4}, {0, 1}, 0, 0);
       },
       {"f32[2, 3]", "[0, 1)"}},
      {"all_gather",
       [] {
         all_gather(t("f32[2, 3]"), 0, {0, 2}, {0, 1}, 0, 0);
       },
       {"[0, 2]"}},
      {"join_all_reduce",
       [] {
         join_all_reduce(t("f32[2]"), Join::sum, {0, 1}, 0, 0);
       },
       {"maximum"}},
      {"join_all_reduce",
       [] {
         join_all_reduce(t("i32[2]"), Join::maximum, {0, 1}, 0, 0);
       },
       {"i32[2]"}},
      {"tree_all_reduce",
       [=] {
         tree_all_reduce({t("f32[2, 3]")}, tree({0, 200, 576}));
       },
       {"576", "200"}},
      {"tree_all_reduce",
       [=] {
         tree_all_reduce({}, tree({0, 288, 576}));
       },
       {"1 nodes"}},
      {"tree_reduce_scatter",
       [=] {
         tree_reduce_scatter({t("f32[2, 3]")}, tree({0, 288, 576}));
       },
       {"[0, 2, 4]"}},
      {"tree_reduce_scatter",
       [=] {
         tree_reduce_scatter({t("f32[3]")}, tree({0, 288, 576}));
       },
       {"f32[3]"}},
  });
  return all;
}

TEST(WrongCalls, NameTheOperationAndBothSides) {
  std::set<std::string, std::less<>> covered;
  for (const Wrong& w : wrong_calls()) {
    std::string error;
    try {
      w.call();
    } catch (const Error& e) {
      error = e.what();
    }
    EXPECT_TRUE(error.starts_with(std::string(w.op) + ": ")) << w.op << " says: '" << error << "'";
    for (const char* part : w.says) {
      EXPECT_NE(error.find(part), std::string::npos) << w.op << " does not name " << part << ": '" << error << "'";
    }
    covered.insert(w.op);
  }
  for (const OpDef* op : table()) {
    EXPECT_TRUE(covered.contains(op->name)) << op->name << " has no wrong call in this test";
  }
}

}  // namespace
}  // namespace isotone::ops
