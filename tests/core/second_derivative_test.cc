// Second derivatives of elementwise operations and contractions against differences of the first; what has none says
// so.
#include <cmath>
#include <map>

#include "base/philox.h"
#include "device/conformance.h"
#include "tests/core/support.h"

namespace isotone {
namespace {

/// f(x) elementwise or a contraction: the gradient of sum(w * grad f) against differences of grad f.
void check_second(const std::string& what, const std::function<Value(const Tensors&)>& f,
                  const std::vector<Shape>& shapes, float low, float high) {
  Tensors x;
  std::vector<std::vector<float>> data;
  for (std::size_t k = 0; k < shapes.size(); ++k) {
    const Philox philox(5, what + std::to_string(k));
    data.emplace_back();
    for (std::int64_t i = 0; i < (Type{DType::f32, shapes[k]}.elements()); ++i) {
      data.back().push_back(low + (high - low) * philox.uniform(static_cast<std::uint64_t>(i)));
    }
    x.push_back(Tensor::from(std::span<const float>(data.back()), shapes[k]));
  }
  const auto random_like = [](const Value& v, const char* key) {
    return ops::random_uniform(ops::full({}, 3, DType::i64), v.shape(), 9, key);
  };
  const Function first = grad([&](const Tensors& a) {
    const Value y = f(a);
    return Tensors{ops::sum(ops::mul(y, random_like(y, "y")))};
  });
  const auto dot = [&](const Tensors& a) {
    Value total = ops::full({}, 0.0);
    const Tensors g = first(a);
    for (std::size_t k = 0; k < g.size(); ++k) {
      total = ops::add(total, ops::sum(ops::mul(g[k], random_like(g[k], k == 0 ? "g0" : "g1"))));
    }
    return Tensors{total};
  };
  const Tensors second = grad(dot)(x);
  double largest = 0.1;
  std::vector<std::vector<float>> ours;
  for (const Tensor& g : second) {
    ours.push_back(g.to_floats());
    for (const float v : ours.back()) {
      largest = std::max(largest, static_cast<double>(std::fabs(v)));
    }
  }
  for (std::size_t k = 0; k < shapes.size(); ++k) {
    for (std::size_t i = 0; i < data[k].size(); ++i) {
      const auto at = [&](float h) {
        std::vector<float> moved = data[k];
        moved[i] += h;
        Tensors y = x;
        y[k] = Tensor::from(std::span<const float>(moved), shapes[k]);
        return static_cast<double>(dot(y)[0].item());
      };
      constexpr float kStep = 1.0F / 128;
      const double numeric = (at(kStep) - at(-kStep)) / (2.0 * static_cast<double>(kStep));
      EXPECT_NEAR(numeric, static_cast<double>(ours[k][i]), 2e-2 * largest)
          << what << ", input " << k << ", element " << i;
    }
  }
}

TEST(SecondDerivative, OfElementwiseOperationsAndContractions) {
  const Using device(cpu::make_cpu_device());
  struct Case {
    const char* name;
    std::function<Value(const Tensors&)> f;
    float low = -1.5F, high = 1.5F;
  };
  using T = const Tensors&;
  const std::vector<Case> unary = {
      {"neg", [](T x) { return ops::neg(x[0]); }},
      {"abs", [](T x) { return ops::abs(x[0]); }, 0.2F, 2.0F},
      {"exp", [](T x) { return ops::exp(x[0]); }},
      {"log", [](T x) { return ops::log(x[0]); }, 0.5F, 3.0F},
      {"sin", [](T x) { return ops::sin(x[0]); }},
      {"cos", [](T x) { return ops::cos(x[0]); }},
      {"tanh", [](T x) { return ops::tanh(x[0]); }},
      {"erf", [](T x) { return ops::erf(x[0]); }},
      {"sigmoid", [](T x) { return ops::sigmoid(x[0]); }},
      {"silu", [](T x) { return ops::silu(x[0]); }},
      {"gelu_erf", [](T x) { return ops::gelu_erf(x[0]); }},
      {"gelu_tanh", [](T x) { return ops::gelu_tanh(x[0]); }},
      {"relu", [](T x) { return ops::relu(x[0]); }, 0.2F, 2.0F},
      {"sqrt", [](T x) { return ops::sqrt(x[0]); }, 0.5F, 3.0F},
      {"rsqrt", [](T x) { return ops::rsqrt(x[0]); }, 0.5F, 3.0F},
      {"clamp", [](T x) { return ops::clamp(x[0], -5.0, 5.0); }},
      {"cast", [](T x) { return ops::cast(ops::mul(ops::cast(x[0], DType::f32), x[0]), DType::f32); }},
      {"where", [](T x) { return ops::where(ops::less(x[0], ops::full({}, 9.0)), ops::mul(x[0], x[0]), x[0]); }},
      {"cumsum", [](T x) { return ops::cumsum(ops::mul(x[0], x[0])); }},
      {"softmax", [](T x) { return ops::softmax(x[0]); }},
      {"mean of squares", [](T x) { return ops::mean(ops::mul(x[0], x[0]), {0}); }},
      {"rms_norm", [](T x) { return ops::rms_norm(x[0], ops::full({4}, 1.0), 1e-3); }, 0.5F, 2.0F},
  };
  for (const Case& c : unary) {
    check_second(c.name, c.f, {{3, 4}}, c.low, c.high);
  }
  const std::vector<Case> binary = {
      {"add", [](T x) { return ops::add(x[0], x[1]); }},
      {"sub", [](T x) { return ops::sub(x[0], x[1]); }},
      {"mul", [](T x) { return ops::mul(x[0], x[1]); }},
      {"div", [](T x) { return ops::div(x[0], x[1]); }, 0.7F, 2.0F},
      {"pow", [](T x) { return ops::pow(x[0], x[1]); }, 0.7F, 2.0F},
      {"maximum", [](T x) { return ops::maximum(ops::mul(x[0], x[0]), ops::sub(x[1], ops::full({}, 9.0))); }},
      {"minimum", [](T x) { return ops::minimum(ops::mul(x[0], x[0]), ops::add(x[1], ops::full({}, 9.0))); }},
      {"swiglu",
       [](T x) {
         return ops::swiglu(x[0], ops::broadcast_to(x[1], {3, 4}));
       }},
  };
  for (const Case& c : binary) {
    check_second(c.name, c.f, {{3, 4}, {1, 4}}, c.low, c.high);
  }
  check_second(
      "matmul", [](T x) { return ops::matmul(x[0], x[1]); }, {{3, 4}, {4, 2}}, -1.0F, 1.0F);
  check_second(
      "matmul of a function", [](T x) { return ops::matmul(ops::tanh(x[0]), ops::exp(x[1])); }, {{3, 4}, {4, 2}}, -1.0F,
      1.0F);
  check_second(
      "linear", [](T x) { return ops::tanh(ops::linear(x[0], x[1])); }, {{2, 3, 4}, {5, 4}}, -1.0F, 1.0F);
  check_second(
      "einsum",
      [](T x) {
        return ops::einsum("bij,bjk->kbi", {x[0], x[1]});
      },
      {{2, 2, 3}, {2, 3, 2}}, -1.0F, 1.0F);
}

/// Every operation that has a gradient has a second one as well, or refuses by the name of what has none: nothing is
/// left out in silence.
TEST(SecondDerivative, IsThereOrRefusedByNameForEveryOperation) {
  const Using device(cpu::make_cpu_device());
  const std::map<std::string_view, std::string_view> refused = {
      {"attention", "attention_grad: this operation has no gradient"},
      {"cross_entropy", "cross_entropy: no gradient through the second output"},
  };
  int there = 0;
  for (const ops::OpDef* op : ops::table()) {
    for (const ops::Sample& sample : op->samples()) {
      if (!sample.check_gradient || sample.inputs.empty() || !is_float(sample.inputs[0].type.dtype)) {
        continue;
      }
      const auto contents = device::sample_contents(sample, 4);
      Tensors arguments;
      for (std::size_t k = 0; k < sample.inputs.size(); ++k) {
        arguments.push_back(Tensor::from_bytes(contents[k].data(), sample.inputs[k].type));
      }
      const auto squares = [](const Value& v) {
        const Value x = ops::cast(v, DType::f32);
        return ops::sum(ops::mul(x, x));
      };
      const Function first = grad([&](const Tensors& x) {
        return Tensors{squares(ops::apply(op->name, Values(x.begin(), x.end()), sample.attrs)[0])};
      });
      const std::string error = error_of([&] {
        const Tensors g = grad([&](const Tensors& x) { return Tensors{squares(first(x)[0])}; })(arguments);
        for (const float v : g[0].to_floats()) {
          ASSERT_TRUE(std::isfinite(v)) << op->name;
        }
        ++there;
      });
      const auto expected = refused.find(op->name);
      EXPECT_TRUE(expected == refused.end() ? error.empty() : error.starts_with(expected->second))
          << op->name << ": '" << error << "'";
    }
  }
  EXPECT_GT(there, 80);
}

TEST(SecondDerivative, IsRefusedByNameWhereThereIsNone) {
  const Using device(cpu::make_cpu_device());
  const auto twice = [](const std::function<Value(const Value&)>& f, const Shape& shape) {
    const Function first = grad([&](const Tensors& x) { return Tensors{ops::sum(f(x[0]))}; });
    return error_of([&] {
      grad([&](const Tensors& x) { return Tensors{ops::sum(first(x)[0])}; })({Tensor(ops::full(shape, 0.5))});
    });
  };
  const std::string error = twice([](const Value& x) { return ops::attention(x, x, x, {}, 0.5)[0]; }, {1, 3, 2, 4});
  EXPECT_EQ(error.find("attention_grad: this operation has no gradient"), 0U) << error;
  EXPECT_EQ(twice([](const Value& x) { return ops::silu(x); }, {3}), "");
}

}  // namespace
}  // namespace isotone
