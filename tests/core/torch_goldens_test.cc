// Values and gradients of operations against PyTorch's (tests/goldens/ops.json): every case has a translation here.
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/core/support.h"

namespace isotone {
namespace {

using Json = nlohmann::json;

double number(const Json& j) {
  if (j.is_string()) {
    const std::string s = j.get<std::string>();
    return s == "nan"   ? std::nan("")
           : s == "inf" ? std::numeric_limits<double>::infinity()
                        : -std::numeric_limits<double>::infinity();
  }
  return j.get<double>();
}

std::vector<double> numbers(const Json& array) {
  std::vector<double> out;
  for (const Json& x : array.at("data")) {
    out.push_back(number(x));
  }
  return out;
}

Tensor tensor_of(const Json& array) {
  const Shape shape = array.at("shape").get<Shape>();
  if (array.at("dtype") == "i64") {
    const auto data = array.at("data").get<std::vector<std::int64_t>>();
    return Tensor::from(std::span<const std::int64_t>(data), shape);
  }
  std::vector<float> data;
  for (const double d : numbers(array)) {
    data.push_back(static_cast<float>(d));
  }
  return Tensor::from(std::span<const float>(data), shape);
}

/// What one case gives: inputs by name in, outputs in PyTorch's order out.
struct Call {
  const Json& attrs;
  std::map<std::string, Tensor> in;
  const Tensor& operator()(const char* name) const { return in.at(name); }
  [[nodiscard]] std::int64_t integer(const char* name) const { return attrs.at(name).get<std::int64_t>(); }
  /// A number for both directions, or a pair.
  [[nodiscard]] Ints pair(const char* name) const {
    const Json& j = attrs.at(name);
    return j.is_array() ? j.get<Ints>() : Ints{j.get<std::int64_t>(), j.get<std::int64_t>()};
  }
};
using Translation = std::function<Values(const Call&)>;

Value swapped(const Value& x) {
  return ops::swap_axes(x, -1, -2);
}

/// Softmax and its like work on the last axis; PyTorch's cases also name another one.
Value along(const Call& c, const std::function<Value(const Value&)>& f) {
  const Value& x = c("x");
  return c.integer("dim") == -1 ? f(x) : swapped(f(swapped(x)));
}

Value cross_entropy(const Call& c) {
  const Value targets = ops::cast(c("targets"), DType::i32);
  const Value loss = ops::cross_entropy(c("logits"), targets)[0];
  if (c.attrs.at("reduction") == "none") {
    return loss;
  }
  const Value counted = ops::sum(ops::cast(ops::greater_equal(targets, ops::full({}, 0, DType::i32)), DType::f32));
  return ops::div(ops::sum(loss), counted);
}

Value conv2d(const Call& c) {
  const Value y =
      ops::conv2d(c("x"), c("weight"), c.pair("stride"), c.pair("padding"), c.pair("dilation"), c.integer("groups"));
  if (!c.in.contains("bias")) {
    return y;
  }
  return ops::add(y, ops::reshape(c("bias"), {-1, 1, 1}));
}

Value rope(const Call& c) {
  const Value x = ops::transpose(c("x"), {0, 2, 1, 3});  // to [batch, token, head, width]
  const std::int64_t half = x.dim(-1) / 2;
  std::vector<float> cosines, sines;
  for (const Json& p : c.attrs.at("positions")) {
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = p.get<double>() * std::pow(c.attrs.at("theta").get<double>(),
                                                      -static_cast<double>(2 * i) / static_cast<double>(2 * half));
      cosines.push_back(static_cast<float>(std::cos(angle)));
      sines.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  const Shape shape{1, x.dim(1), half};
  return ops::transpose(ops::rope(x, Tensor::from(std::span<const float>(cosines), shape),
                                  Tensor::from(std::span<const float>(sines), shape)),
                        {0, 2, 1, 3});
}

Value attention(const Call& c) {
  const auto ours = [&](const char* name) { return ops::transpose(c(name), {0, 2, 1, 3}); };
  const Value q = ours("q"), k = ours("k"), v = ours("v");
  const double scale = 1.0 / std::sqrt(static_cast<double>(q.dim(-1)));
  const bool causal = c.attrs.at("causal").get<bool>();
  const std::int64_t missing = k.dim(1) - q.dim(1);
  if (missing == 0) {
    return ops::transpose(ops::attention(q, k, v, {}, scale, causal, c.integer("window"))[0], {0, 2, 1, 3});
  }
  // Queries stand for the last positions: rows before them are computed and dropped.
  const Value padded = ops::pad(q, {0, missing, 0, 0}, {0, 0, 0, 0});
  const Value o = ops::attention(padded, k, v, {}, scale, causal, c.integer("window"))[0];
  return ops::transpose(ops::slice_axis(o, 1, missing, k.dim(1)), {0, 2, 1, 3});
}

Value einsum(const Call& c) {
  const std::string pattern = c.attrs.at("pattern").get<std::string>();
  if (pattern.starts_with("ii")) {  // a repeated letter is not offered: the diagonal by a mask
    const Value x = c("x0");
    const std::int64_t n = x.dim(0);
    const Value eye = ops::one_hot(ops::iota({n}), n);
    const Value diagonal = ops::sum(ops::mul(x, eye), {1});
    return pattern == "ii->i" ? diagonal : ops::sum(diagonal);
  }
  if (c.in.size() == 3) {  // two at a time
    return ops::einsum("bik,kc->bic", {ops::einsum("bij,bjk->bik", {c("x0"), c("x1")}), c("x2")});
  }
  return c.in.size() == 1 ? ops::einsum(pattern, {c("x0")}) : ops::einsum(pattern, {c("x0"), c("x1")});
}

const std::map<std::string, Translation, std::less<>>& translations() {
  using C = const Call&;
  const auto reduction = [](Value (*f)(const Value&, Ints, bool)) {
    return [f](C c) { return Values{f(c("x"), {c.integer("dim")}, false)}; };
  };
  const auto unary = [](Value (*f)(const Value&)) { return [f](C c) { return Values{f(c("x"))}; }; };
  static const std::map<std::string, Translation, std::less<>> table = {
      {"softmax", [](C c) { return Values{ops::softmax(c("x"), c.integer("dim"))}; }},
      {"log_softmax", [](C c) { return Values{along(c, ops::log_softmax)}; }},
      {"logsumexp", reduction(ops::logsumexp)},
      {"cumsum", [](C c) { return Values{ops::cumsum(c("x"), c.integer("dim"))}; }},
      {"var",
       [](C c) {
         const Value v = ops::var(c("x"), {c.integer("dim")});
         const double n = static_cast<double>(c("x").dim(c.integer("dim")));
         return Values{ops::mul(v, ops::full({}, n / (n - c.attrs.at("correction").get<double>())))};
       }},
      {"cross_entropy", [](C c) { return Values{cross_entropy(c)}; }},
      {"rms_norm", [](C c) { return Values{ops::rms_norm(c("x"), c("weight"), c.attrs.at("eps").get<double>())}; }},
      {"layer_norm",
       [](C c) { return Values{ops::layer_norm(c("x"), c("weight"), c("bias"), c.attrs.at("eps").get<double>())}; }},
      {"gelu",
       [](C c) {
         return Values{c.attrs.at("approximate") == "tanh" ? ops::gelu_tanh(c("x")) : ops::gelu_erf(c("x"))};
       }},
      {"silu", unary(ops::silu)},
      {"sigmoid", unary(ops::sigmoid)},
      {"tanh", unary(ops::tanh)},
      {"erf", unary(ops::erf)},
      {"relu", unary(ops::relu)},
      {"exp", unary(ops::exp)},
      {"sin", unary(ops::sin)},
      {"cos", unary(ops::cos)},
      {"abs", unary(ops::abs)},
      {"log", unary(ops::log)},
      {"sqrt", unary(ops::sqrt)},
      {"rsqrt", unary(ops::rsqrt)},
      {"pow", [](C c) { return Values{ops::pow(c("x"), c("y"))}; }},
      {"clamp",
       [](C c) {
         return Values{ops::clamp(c("x"), c.attrs.at("min").get<double>(), c.attrs.at("max").get<double>())};
       }},
      {"sum", reduction(ops::sum)},
      {"mean", reduction(ops::mean)},
      {"max", reduction(ops::max)},
      {"min", reduction(ops::min)},
      {"argmax", [](C c) { return Values{ops::argmax(c("x"), c.integer("dim"))}; }},
      {"argmin", [](C c) { return Values{ops::argmin(c("x"), c.integer("dim"))}; }},
      {"sort", [](C c) { return ops::sort(c("x"), c.integer("dim"), c.attrs.at("descending").get<bool>()); }},
      {"topk", [](C c) { return ops::topk(c("x"), c.integer("k")); }},
      {"gather",
       [](C c) {  // ours wants the other axes equal: the index of PyTorch's cases may be shorter on none of them here
         return Values{ops::gather(c("x"), c("index"), c.integer("dim"))};
       }},
      {"take", [](C c) { return Values{ops::take(c("x"), c("index"), c.integer("dim"))}; }},
      {"scatter_add", [](C c) { return Values{ops::scatter_add(c("x"), c("index"), c("source"), c.integer("dim"))}; }},
      {"embedding", [](C c) { return Values{ops::embedding(c("weight"), c("ids"), DType::f32)}; }},
      {"one_hot", [](C c) { return Values{ops::one_hot(c("ids"), c.integer("classes"), DType::i64)}; }},
      {"conv2d", [](C c) { return Values{conv2d(c)}; }},
      {"max_pool2d",
       [](C c) { return Values{ops::max_pool2d(c("x"), c.pair("kernel"), c.pair("stride"), c.pair("padding"))}; }},
      {"avg_pool2d",
       [](C c) { return Values{ops::avg_pool2d(c("x"), c.pair("kernel"), c.pair("stride"), c.pair("padding"))}; }},
      {"rope", [](C c) { return Values{rope(c)}; }},
      {"swiglu", [](C c) { return Values{ops::swiglu(c("gate"), c("up"))}; }},
      {"attention", [](C c) { return Values{attention(c)}; }},
      {"einsum", [](C c) { return Values{einsum(c)}; }},
  };
  return table;
}

/// Equal within 2e-5 of the element plus 1e-5 of the largest one: f32 against f64.
void compare(const std::string& what, const Tensor& ours, const Json& golden) {
  ASSERT_EQ(ours.shape(), golden.at("shape").get<Shape>()) << what;
  const std::vector<double> expected = numbers(golden);
  const bool exact = golden.at("dtype") != "f32";
  std::vector<double> found;
  if (exact) {
    for (const std::int64_t v : ours.to_ints()) {
      found.push_back(static_cast<double>(v));
    }
  } else {
    for (const float v : ours.to_floats()) {
      found.push_back(static_cast<double>(v));
    }
  }
  double largest = 0.0;
  for (const double v : expected) {
    largest = std::isfinite(v) ? std::max(largest, std::fabs(v)) : largest;
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!std::isfinite(expected[i])) {
      EXPECT_TRUE(found[i] == expected[i] || (std::isnan(found[i]) && std::isnan(expected[i])))
          << what << ", element " << i;
    } else {
      EXPECT_NEAR(found[i], expected[i], exact ? 0.0 : 2e-5 * std::fabs(expected[i]) + 1e-5 * largest + 1e-30)
          << what << ", element " << i;
    }
  }
}

void check_case(const Json& entry) {
  const std::string what = entry.at("op").get<std::string>() + " " + entry.at("name").get<std::string>();
  const auto translation = translations().find(entry.at("op").get<std::string>());
  ASSERT_NE(translation, translations().end()) << what << " has no translation";
  std::vector<std::string> names;
  Tensors arguments;
  for (const auto& [name, array] : entry.at("inputs").items()) {
    names.push_back(name);
    arguments.push_back(tensor_of(array));
  }
  const auto call = [&](const Tensors& x) {
    Call c{entry.at("attrs"), {}};
    for (std::size_t i = 0; i < names.size(); ++i) {
      c.in[names[i]] = x[i];
    }
    return translation->second(c);
  };
  const Values outputs = call(arguments);
  ASSERT_EQ(outputs.size(), entry.at("outputs").size()) << what;
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    compare(fmt::format("{}, output {}", what, k), outputs[k], entry.at("outputs")[k]);
  }
  if (!entry.contains("grads")) {
    return;
  }
  const Tensors gradients = grad([&](const Tensors& x) {
    Value total = ops::full({}, 0.0);
    std::size_t next = 0;
    for (const Value& y : call(x)) {
      if (is_float(y.dtype())) {
        total = ops::add(total, ops::sum(ops::mul(y, tensor_of(entry.at("cotangents")[next++]))));
      }
    }
    return Tensors{total};
  })(arguments);
  std::size_t compared = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (entry.at("grads").contains(names[i])) {
      ASSERT_TRUE(gradients[i]) << what;
      compare(what + ", gradient to " + names[i], gradients[i], entry.at("grads").at(names[i]));
      ++compared;
    }
  }
  EXPECT_EQ(compared, entry.at("grads").size()) << what;
}

Json goldens() {
  std::ifstream file(std::string(ISOTONE_SOURCE_DIR) + "/tests/goldens/ops.json");
  return Json::parse(file);
}

TEST(TorchGoldens, OnTheCpu) {
  const Using device(cpu::make_cpu_device());
  const Json all = goldens();
  ASSERT_GE(all.at("cases").size(), 84U);
  for (const Json& entry : all.at("cases")) {
    check_case(entry);
  }
}

TEST(TorchGoldens, OnTheInterpreter) {
  const Using device(interpreter());
  const Json all = goldens();
  for (const Json& entry : all.at("cases")) {
    check_case(entry);
  }
}

TEST(TorchGoldens, EveryTranslationIsUsed) {
  std::set<std::string> used;
  const Json all = goldens();
  for (const Json& entry : all.at("cases")) {
    used.insert(entry.at("op").get<std::string>());
  }
  for (const auto& [op, translation] : translations()) {
    EXPECT_TRUE(used.contains(op)) << op;
  }
}

}  // namespace
}  // namespace isotone
