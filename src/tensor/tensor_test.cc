// Lazy tensors and transforms on the interpreter: when things run, what they keep, and what functions of functions
// give.
#include <gtest/gtest.h>

#include <cmath>

#include "base/error_for_tests.h"
#include "device/interpreter.h"
#include "tensor/transforms.h"

namespace isotone {
namespace {

/// The interpreter, counting what it is asked to do.
class Counting : public device::Device {
 public:
  int compiled = 0, ran = 0;
  std::size_t instructions = 0;  // of the last compiled graph

  [[nodiscard]] std::string_view name() const override { return "counting"; }
  [[nodiscard]] bool takes(const ir::Graph& g, const ir::Instruction& i) const override { return inner_->takes(g, i); }
  [[nodiscard]] std::unique_ptr<device::Executable> compile(const ir::Graph& graph,
                                                            const device::CompileOptions& options) override {
    ++compiled;
    instructions = graph.code.size();
    return std::make_unique<Run>(inner_->compile(graph, options), ran);
  }
  [[nodiscard]] device::BufferPtr upload(const void* from, std::size_t bytes) override {
    return inner_->upload(from, bytes);
  }

 private:
  class Run : public device::Executable {
   public:
    Run(std::unique_ptr<device::Executable> inner, int& ran) : inner_(std::move(inner)), ran_(ran) {}
    std::vector<device::BufferPtr> run(std::span<const device::BufferPtr> inputs) override {
      ++ran_;
      return inner_->run(inputs);
    }

   private:
    std::unique_ptr<device::Executable> inner_;
    int& ran_;
  };
  std::unique_ptr<device::Device> inner_ = device::make_interpreter();
};

class Tensors_ : public testing::Test {
 protected:
  void SetUp() override { set_default_device(device_); }
  void TearDown() override { set_default_device(nullptr); }
  static Tensor vec(const std::vector<float>& values) {
    return Tensor::from(std::span<const float>(values), {static_cast<std::int64_t>(values.size())});
  }
  std::shared_ptr<Counting> device_ = std::make_shared<Counting>();
};
using Floats = std::vector<float>;

TEST_F(Tensors_, NothingRunsBeforeAValueIsRead) {
  const Tensor x = vec({1.0F, 2.0F, 3.0F});
  const Tensor y = ops::exp(x) * x + x;
  EXPECT_EQ(device_->compiled, 0);
  EXPECT_EQ(y.storage(), nullptr);
  EXPECT_NE(x.storage(), nullptr);
  static_cast<void>(y.to_floats());
  EXPECT_EQ(device_->ran, 1);
  EXPECT_NE(y.storage(), nullptr);
  static_cast<void>(y.to_floats());
  EXPECT_EQ(device_->ran, 1);  // computed once
}

TEST_F(Tensors_, AnErrorOfShapeComesAtTheCall) {
  EXPECT_NE(error_of([] {
              static_cast<void>(vec({1, 2}) + vec({1, 2, 3}));
            }).find("add: shapes [2] and [3]"),
            std::string::npos);
  EXPECT_NE(
      error_of([] { Tensor::from(std::span<const float>(Floats{1.0F}), {2}); }).find("1 values were given for f32[2]"),
      std::string::npos);
  EXPECT_NE(error_of([] { static_cast<void>(vec({1, 2}).item()); }).find("f32[2] has 2 elements"), std::string::npos);
  EXPECT_NE(error_of([] { eval(std::vector<Tensor>{Tensor()}); }).find("empty"), std::string::npos);
  EXPECT_NE(error_of([] { static_cast<void>(vec({1}) + Tensor()); }).find("add: input 1 is missing"),
            std::string::npos);
  EXPECT_EQ(device_->ran, 0);
}

TEST_F(Tensors_, SeveralResultsInOneRun) {
  const Tensor x = vec({1.0F, 4.0F});
  const Tensor shared = ops::sqrt(x);
  const Tensor a = shared + x, b = shared - x;
  eval(std::vector<Tensor>{a, b, a});
  EXPECT_EQ(device_->ran, 1);
  EXPECT_EQ(device_->instructions, 3U);  // the square root once
  EXPECT_EQ(a.to_floats(), (Floats{2.0F, 6.0F}));
  EXPECT_EQ(b.to_floats(), (Floats{0.0F, -2.0F}));
  EXPECT_EQ(device_->ran, 1);
  const Values sorted = ops::sort(vec({3.0F, 1.0F}));
  EXPECT_EQ(Tensor(sorted[0]).to_floats(), (Floats{1.0F, 3.0F}));
  EXPECT_EQ(Tensor(sorted[1]).to_ints(), (std::vector<std::int64_t>{1, 0}));
  EXPECT_EQ(device_->ran, 2);  // both outputs of one operation become known together
}

TEST_F(Tensors_, AComputedValueForgetsWhatItWasMadeOf) {
  Tensor x = vec({1.0F});
  for (int i = 0; i < 10; ++i) {
    x = x + x;
    eval(x);
    EXPECT_EQ(device_->instructions, 1U);
    EXPECT_TRUE(x.node()->inputs.empty());
  }
  EXPECT_EQ(x.item(), 1024.0F);
}

TEST_F(Tensors_, DtypesRoundTrip) {
  const Tensor x = vec({-1.75F, 0.0F, 3.0F, 300.0F});
  EXPECT_EQ(Tensor(ops::cast(x, DType::i32)).to_ints(), (std::vector<std::int64_t>{-1, 0, 3, 300}));
  EXPECT_EQ(Tensor(ops::cast(x, DType::i8)).to_ints(), (std::vector<std::int64_t>{-1, 0, 3, 127}));
  EXPECT_EQ(Tensor(ops::cast(x, DType::u8)).to_ints(), (std::vector<std::int64_t>{0, 0, 3, 255}));
  EXPECT_EQ(Tensor(ops::cast(x, DType::boolean)).to_ints(), (std::vector<std::int64_t>{1, 0, 1, 1}));
  EXPECT_EQ(Tensor(ops::cast(x, DType::bf16)).to_floats(), (Floats{-1.75F, 0.0F, 3.0F, 300.0F}));
  EXPECT_EQ(Tensor(ops::cast(vec({1.00390625F, 70000.0F}), DType::f16)).to_floats(), (Floats{1.00390625F, INFINITY}));
  EXPECT_EQ(x.to_bytes().size(), 16U);
  EXPECT_EQ(x.describe(), "f32[4] {-1.75, 0, 3, 300}");
  EXPECT_EQ(Tensor(ops::iota({9})).describe(), "i32[9] {0, 1, 2, 3, 4, 5, 6, 7, ...}");
  EXPECT_NE(error_of([&] { static_cast<void>(x.to_ints()); }), "");
  const std::vector<std::int64_t> big = {INT64_MAX, INT64_MIN};
  EXPECT_EQ(Tensor::from(std::span<const std::int64_t>(big), {2}).to_ints(), big);
}

TEST_F(Tensors_, NoDeviceIsAnError) {
  set_default_device(nullptr);
  EXPECT_NE(error_of([] { vec({1.0F}); }).find("set_default_device"), std::string::npos);
}

TEST_F(Tensors_, GradientOfAProduct) {
  const auto f = value_and_grad([](const Tensors& x) { return Tensors{ops::sum(x[0] * x[0] * x[1]), x[0]}; });
  const ValueAndGrad r = f({vec({1.0F, 2.0F}), vec({3.0F, 4.0F})});
  EXPECT_EQ(device_->ran, 0);  // gradients are lazy too
  EXPECT_EQ(r.values[0].item(), 19.0F);
  EXPECT_EQ(r.values[1].to_floats(), (Floats{1.0F, 2.0F}));
  EXPECT_EQ(r.gradients[0].to_floats(), (Floats{6.0F, 16.0F}));
  EXPECT_EQ(r.gradients[1].to_floats(), (Floats{1.0F, 4.0F}));
}

TEST_F(Tensors_, ArgumentsWithoutInfluenceGetZeroAndIntegersGetNothing) {
  const std::vector<std::int32_t> ids = {1, 0};
  const Tensors g = grad([](const Tensors& x) { return Tensors{ops::sum(ops::take(x[0], x[1]))}; })(
      {vec({1.0F, 2.0F}), Tensor::from(std::span<const std::int32_t>(ids), {2}), vec({5.0F})});
  EXPECT_EQ(g[0].to_floats(), (Floats{1.0F, 1.0F}));
  EXPECT_FALSE(g[1]);
  EXPECT_EQ(g[2].to_floats(), (Floats{0.0F}));
}

TEST_F(Tensors_, ReadingAValueInsideDoesNotBreakItsGradient) {
  float seen = 0.0F;
  const Tensors g = grad([&](const Tensors& x) {
    const Tensor y = ops::exp(x[0]);
    seen = y.item();
    const Tensor z = y * y;
    eval(z);
    return Tensors{z + y};
  })({Tensor::scalar(0.0)});
  EXPECT_EQ(seen, 1.0F);
  EXPECT_EQ(g[0].item(), 3.0F);
}

TEST_F(Tensors_, GradientsDoNotKeepTheGraphAlive) {
  // A loop of plain steps must not grow: what is computed forgets where it came from.
  Tensor x = vec({1.0F, -2.0F});
  const Function step = grad([](const Tensors& p) { return Tensors{ops::sum(p[0] * p[0])}; });
  std::size_t instructions = 0;
  for (int i = 0; i < 20; ++i) {
    x = x - step({x})[0] * Tensor::scalar(0.25);
    eval(x);
    EXPECT_TRUE(i == 0 || device_->instructions == instructions) << i;
    instructions = device_->instructions;
    EXPECT_TRUE(x.node()->inputs.empty());
  }
  EXPECT_EQ(x.to_floats()[0], std::ldexp(1.0F, -20));
}

TEST_F(Tensors_, GradientsNest) {
  // d3/dx3 of x^4 = 24 x, by three nested grads; and an inner gradient with respect to another variable.
  const Function f = [](const Tensors& x) { return Tensors{x[0] * x[0] * x[0] * x[0]}; };
  EXPECT_EQ(grad(grad(grad(f)))({Tensor::scalar(2.0)})[0].item(), 48.0F);
  const Tensors g = grad([](const Tensors& x) {
    const Tensors inner = grad([&](const Tensors& y) { return Tensors{x[0] * y[0] * y[0]}; })({Tensor::scalar(3.0)});
    static_cast<void>(inner[0].item());  // read on the way
    return Tensors{inner[0] * x[0]};     // 2 x y * x
  })({Tensor::scalar(5.0)});
  EXPECT_EQ(g[0].item(), 60.0F);  // 4 x y
}

TEST_F(Tensors_, FanInIsALeftFoldInRecordedOrder) {
  // 1e8 + 1 - 1e8 depends on the order: ((1 + 1e8) - 1e8) = 0 and ((1e8 - 1e8) + 1) = 1 in f32.
  const auto with = [](const std::vector<double>& factors) {
    return grad([&](const Tensors& x) {
             Tensor total;
             for (const double f : factors) {
               const Tensor term = ops::sum(x[0] * Tensor::scalar(f));
               total = total ? total + term : term;
             }
             return Tensors{total};
           })({vec({1.0F})})[0]
        .item();
  };
  EXPECT_EQ(with({1.0, 1e8, -1e8}), 0.0F);
  EXPECT_EQ(with({1e8, -1e8, 1.0}), 1.0F);
}

TEST_F(Tensors_, GradientsOfWeightsStayF32UnderBf16) {
  const Tensor w = Tensor::from(std::span<const float>(Floats{0.5F, 0.25F, -1.0F, 2.0F}), {2, 2});
  const Tensor x =
      Tensor::from(std::span<const float>(Floats{1.0F, 1.0F / 256, 1.0F, 1.0F / 512, 1.0F, 1.0F}), {1, 3, 2});
  const Function f = [](const Tensors& a) {
    const Value y = ops::linear(ops::cast(a[1], DType::bf16), ops::cast(a[0], DType::bf16));
    EXPECT_EQ(y.dtype(), DType::bf16);
    return Tensors{ops::sum(ops::cast(y, DType::f32))};
  };
  const Tensors g = grad(f)({w, x});
  EXPECT_EQ(g[0].dtype(), DType::f32);
  // 1/256 + 1/512 + 1 does not fit bf16's 8 bits: rounded anywhere it would differ.
  EXPECT_EQ(g[0].to_floats(), (Floats{3.0F, 1.005859375F, 3.0F, 1.005859375F}));
}

TEST_F(Tensors_, CompileTracesOncePerSignature) {
  int traces = 0;
  Compiled f = compile([&](const Tensors& x) {
    ++traces;
    return Tensors{x[0] + x[1]};
  });
  EXPECT_EQ(f({vec({1, 2}), vec({3, 4})})[0].to_floats(), (Floats{4.0F, 6.0F}));
  EXPECT_EQ(f({vec({5, 6}), vec({7, 8})})[0].to_floats(), (Floats{12.0F, 14.0F}));
  EXPECT_EQ(traces, 1);
  EXPECT_EQ(f({vec({1, 2, 3}), vec({1})})[0].to_floats(), (Floats{2.0F, 3.0F, 4.0F}));
  EXPECT_EQ(f({Tensor(ops::cast(vec({1, 2}), DType::bf16)), Tensor(ops::cast(vec({1, 2}), DType::bf16))})[0].dtype(),
            DType::bf16);
  EXPECT_EQ(traces, 3);
  EXPECT_EQ(f({vec({1, 2}), vec({3, 4})})[0].to_floats(), (Floats{4.0F, 6.0F}));
  EXPECT_EQ(traces, 3);
}

TEST_F(Tensors_, CompiledFunctionsReturnArgumentsAndCaptures) {
  const Tensor captured = vec({10.0F});
  Compiled f = compile([&](const Tensors& x) { return Tensors{x[0], captured, x[0] + captured, x[0]}; });
  const Tensors r = f({vec({1.0F})});
  EXPECT_EQ(r[0].item(), 1.0F);
  EXPECT_EQ(r[1].item(), 10.0F);
  EXPECT_EQ(r[2].item(), 11.0F);
  EXPECT_EQ(r[3].item(), 1.0F);
  EXPECT_NE(error_of([] {
              Compiled g =
                  compile([](const Tensors& x) { return Tensors{Tensor::scalar(static_cast<double>(x[0].item()))}; });
              g({vec({1.0F})});
            }).find("placeholder"),
            std::string::npos);
  EXPECT_NE(error_of([] { compile([](const Tensors& x) { return x; }, {{3}})({vec({1.0F})}); }).find("argument 3"),
            std::string::npos);
}

TEST_F(Tensors_, CompiledGradientsLikeLazyOnes) {
  const Function f = [](const Tensors& x) { return Tensors{ops::sum(ops::silu(ops::linear(x[0], x[1])))}; };
  const Tensors x = {Tensor::from(std::span<const float>(Floats{1, 2, 3, 4, 5, 6}), {2, 3}),
                     Tensor::from(std::span<const float>(Floats{0.1F, -0.2F, 0.3F}), {1, 3})};
  const Tensors lazy = grad(f)(x), compiled = compile(grad(f))(x);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(lazy[i].to_bytes(), compiled[i].to_bytes());
  }
}

TEST_F(Tensors_, RecomputeGivesTheSameBits) {
  const Function block = [](const Tensors& x) { return Tensors{ops::tanh(ops::exp(ops::sin(x[0]) * x[1]))}; };
  const auto run = [&](bool again) {
    const Function f = again ? recompute(block) : block;
    const auto r = value_and_grad([&](const Tensors& x) {
      return Tensors{ops::sum(f({f(x)[0], x[1]})[0])};
    })({vec({0.3F, -0.7F}), vec({0.9F, 1.1F})});
    return std::vector{r.values[0].to_bytes(), r.gradients[0].to_bytes(), r.gradients[1].to_bytes()};
  };
  EXPECT_EQ(run(true), run(false));
}

TEST_F(Tensors_, LongLoopsOfRecordingAreFine) {
  Tensor x = vec({1.0F});
  const Tensor one = vec({1.0F});
  for (int i = 0; i < 20000; ++i) {
    x = x + one;
  }
  EXPECT_EQ(x.item(), 20001.0F);
}

}  // namespace
}  // namespace isotone
