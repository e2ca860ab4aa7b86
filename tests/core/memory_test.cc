// How the CPU backend uses memory: views without copies, reuse, donation, recomputation, and what is known before a
// run.
#include <cstring>

#include "base/kernel_log.h"
#include "base/parallel.h"
#include "tests/core/support.h"

namespace isotone {
namespace {

using Floats = std::vector<float>;

Tensor vec(const Floats& values, Shape shape = {}) {
  return Tensor::from(std::span<const float>(values),
                      shape.empty() ? Shape{static_cast<std::int64_t>(values.size())} : std::move(shape));
}

Tensor counted(Shape shape) {
  return ops::cast(ops::reshape(ops::iota({Type{DType::f32, shape}.elements()}), shape), DType::f32);
}

class Memory : public testing::Test {
 protected:
  Using using_{cpu::make_cpu_device()};

  /// Kernels that run while `f` does.
  static std::vector<std::string> kernels(const std::function<void()>& f) {
    set_kernel_log(true);
    f();
    std::vector<std::string> names;
    for (const auto& [name, count] : kernel_log()) {
      for (std::int64_t i = 0; i < count; ++i) {
        names.push_back(name);
      }
    }
    set_kernel_log(false);
    return names;
  }
};

TEST_F(Memory, ViewsFeedElementwiseKernelsWithoutACopy) {
  const Tensor x = counted({6, 8});
  const Tensor row = counted({8});
  eval(std::vector<Tensor>{x, row});
  const auto expect = [&](const char* what, const std::function<Value()>& f, const Floats& head) {
    Tensor y;
    const auto names = kernels([&] {
      y = f();
      eval(y);
    });
    EXPECT_EQ(names.size(), 1U) << what << ": " << (names.empty() ? "" : names[0]);
    for (const std::string& n : names) {
      EXPECT_NE(n, "copy") << what;
    }
    const Floats found = y.to_floats();
    for (std::size_t i = 0; i < head.size(); ++i) {
      EXPECT_EQ(found[i], head[i]) << what << ", element " << i;
    }
  };
  expect("transpose", [&] { return ops::neg(ops::transpose(x, {1, 0})); }, {-0.0F, -8.0F, -16.0F});
  expect("slice", [&] { return ops::neg(ops::slice(x, {1, 2}, {6, 8}, {2, 3})); }, {-10.0F, -13.0F, -26.0F, -29.0F});
  expect("reshape", [&] { return ops::neg(ops::reshape(x, {3, 16})); }, {-0.0F, -1.0F});
  expect("reshape of a slice",
         [&] {
           return ops::neg(ops::reshape(ops::slice_axis(x, 0, 2, 4), {4, 4}));
         },
         {-16.0F, -17.0F});
  expect("broadcast", [&] { return ops::add(ops::broadcast_to(row, {6, 8}), x); }, {0.0F, 2.0F, 4.0F});
  expect("implicit broadcast", [&] { return ops::mul(x, row); }, {0.0F, 1.0F, 4.0F, 9.0F});
  expect("broadcast of a transposed column",
         [&] {
           return ops::add(x, ops::swap_axes(ops::slice_axis(ops::transpose(x, {1, 0}), 0, 1, 2), 0, 1));
         },
         {1.0F, 2.0F, 3.0F});
  expect("several",
         [&] {
           return ops::exp(ops::transpose(ops::slice_axis(ops::reshape(x, {2, 3, 8}), 1, 0, 1), {2, 0, 1}));
         },
         {1.0F});
}

TEST_F(Memory, AViewThatIsReadBecomesContiguous) {
  const Tensor x = counted({2, 3});
  EXPECT_EQ(Tensor(ops::transpose(x, {1, 0})).to_floats(), (Floats{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(Tensor(ops::broadcast_to(ops::slice_axis(x, 1, 1, 2), {2, 2})).to_floats(), (Floats{1, 1, 4, 4}));
  EXPECT_EQ(Tensor(ops::reshape(ops::transpose(x, {1, 0}), {6})).to_floats(), (Floats{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(Tensor(ops::slice(x, {0, 0}, {2, 3}, {1, 2})).to_floats(), (Floats{0, 2, 3, 5}));
  EXPECT_EQ(x.to_floats(), (Floats{0, 1, 2, 3, 4, 5}));
}

TEST_F(Memory, IsKnownBeforeTheRunAndReused) {
  const Type big{DType::f32, {256, 256}};
  Compiled chain = compile([](const Tensors& x) {
    Value y = ops::transpose(x[0], {1, 0});
    for (int i = 0; i < 40; ++i) {
      y = ops::softmax(ops::exp(y));  // softmax does not run in place of what exp made
      y = ops::transpose(y, {1, 0});
    }
    return Tensors{y};
  });
  const device::MemoryReport before = chain.memory({big});
  EXPECT_EQ(before.inputs, big.bytes());
  EXPECT_EQ(before.outputs, big.bytes());
  EXPECT_GT(before.unplanned, 30 * big.bytes());
  EXPECT_LE(before.arena, 4 * big.bytes());
  EXPECT_GT(before.arena, 0U);
  EXPECT_EQ(before.peak(), before.inputs + before.outputs + before.arena);
  chain({Tensor(ops::full(big.shape, 0.1))});
  EXPECT_EQ(chain.memory({big}).peak(), before.peak());
}

TEST_F(Memory, ElementwiseChainsRunInPlace) {
  const Type t{DType::f32, {1000}};
  Compiled chain = compile([](const Tensors& x) {
    Value y = ops::exp(x[0]);
    for (int i = 0; i < 20; ++i) {
      y = ops::sin(y);
    }
    return Tensors{ops::neg(y)};
  });
  EXPECT_LE(chain.memory({t}).arena, 2 * 4096U);
}

TEST_F(Memory, DonatedMemoryIsUpdatedInPlace) {
  Compiled step = compile([](const Tensors& x) { return Tensors{x[0] + x[1]}; }, {{0}});
  Tensor x = vec({1, 2, 3, 4});
  const Tensor d = vec({1, 1, 1, 1});
  const void* place = x.host();
  for (int i = 0; i < 3; ++i) {
    Tensors r = step({std::exchange(x, Tensor()), d});
    x = r[0];
    EXPECT_EQ(x.host(), place);
  }
  EXPECT_EQ(x.to_floats(), (Floats{4, 5, 6, 7}));
  EXPECT_EQ(d.to_floats(), (Floats{1, 1, 1, 1}));
  EXPECT_EQ(step.memory({x.type(), d.type()}).outputs, 0U);
  Compiled plain = compile([](const Tensors& a) { return Tensors{a[0] + a[1]}; });
  EXPECT_NE(plain({x, d})[0].host(), x.host());
}

TEST_F(Memory, DonatedMemoryThatSomebodyElseHoldsIsCopied) {
  Compiled step = compile([](const Tensors& x) { return Tensors{ops::exp(x[0])}; }, {{0}});
  const Tensor x = vec({0, 1});
  const std::shared_ptr<ir::Storage> held = x.storage();
  const Tensors r = step({x});
  EXPECT_NE(r[0].host(), x.host());
  EXPECT_EQ(x.to_floats(), (Floats{0, 1}));
  EXPECT_EQ(r[0].to_floats()[0], 1.0F);
  // One buffer as two arguments, both donated.
  Compiled two = compile(
      [](const Tensors& a) {
        return Tensors{ops::add(a[0], ops::full({}, 1.0)), ops::add(a[1], ops::full({}, 2.0))};
      },
      {{0, 1}});
  const Tensor y = vec({5, 6});
  const Tensors both = two({y, y});
  EXPECT_EQ(both[0].to_floats(), (Floats{6, 7}));
  EXPECT_EQ(both[1].to_floats(), (Floats{7, 8}));
}

TEST_F(Memory, AdoptedAndConstantMemoryIsNeverOverwritten) {
  auto data = std::make_shared<Floats>(Floats{1, 2, 3, 4});
  for (const bool constant : {false, true}) {
    Compiled step = compile([](const Tensors& x) { return Tensors{ops::neg(x[0])}; }, {{0}});
    const Tensors r = step({Tensor::adopt(data->data(), {DType::f32, {2, 2}}, data, constant)});
    EXPECT_EQ(r[0].to_floats(), (Floats{-1, -2, -3, -4}));
    EXPECT_EQ(*data, (Floats{1, 2, 3, 4}));
  }
  const Tensor x = Tensor::adopt(data->data(), {DType::f32, {4}}, data, false);
  EXPECT_EQ(x.host(), data->data());  // no copy
  const std::weak_ptr<Floats> alive = data;
  data = nullptr;
  EXPECT_EQ(x.to_floats(), (Floats{1, 2, 3, 4}));
  EXPECT_FALSE(alive.expired());
}

TEST_F(Memory, ADonatedArgumentThatIsReadLaterIsNotLost) {
  Compiled f = compile(
      [](const Tensors& x) {
        const Value y = ops::exp(x[0]);
        const Value view = ops::transpose(x[0], {1, 0});  // another reader of the same memory, after y
        return Tensors{ops::add(y, view), y, x[0]};
      },
      {{0}});
  const Floats values = {0.0F, 1.0F, 2.0F, 3.0F};
  const Tensors r = f({vec(values, {2, 2})});
  const Floats y = r[1].to_floats();
  EXPECT_EQ(r[0].to_floats(), (Floats{y[0] + 0.0F, y[1] + 2.0F, y[2] + 1.0F, y[3] + 3.0F}));
  EXPECT_EQ(r[2].to_floats(), values);
}

/// A deep chain whose every block keeps several intermediates for the backward pass.
Function deep(bool again, int blocks) {
  const Function block = [](const Tensors& x) {
    const Value h = ops::linear(x[0], x[1]);
    return Tensors{ops::add(x[0], ops::mul(ops::silu(h), ops::tanh(ops::sin(h))))};
  };
  return [=](const Tensors& x) {
    Tensor y = x[0];
    for (int i = 0; i < blocks; ++i) {
      y = (again ? recompute(block) : block)({y, x[1]})[0];
    }
    return Tensors{ops::sum(ops::mul(y, y))};
  };
}

TEST_F(Memory, RecomputeTakesLessForTheSameBits) {
  const Type x{DType::f32, {64, 32}}, w{DType::f32, {32, 32}};
  const auto function = [&](bool again) {
    return compile([=](const Tensors& a) {
      const ValueAndGrad r = value_and_grad(deep(again, 24))(a);
      return Tensors{r.values[0], r.gradients[0], r.gradients[1]};
    });
  };
  Compiled plain = function(false), again = function(true);
  EXPECT_LT(again.memory({x, w}).arena, plain.memory({x, w}).arena * 6 / 10)
      << again.memory({x, w}).arena << " of " << plain.memory({x, w}).arena;
  const Tensor a = ops::random_normal(ops::full({}, 1, DType::i64), x.shape, 1, "x");
  const Tensor b = ops::mul(ops::random_normal(ops::full({}, 1, DType::i64), w.shape, 1, "w"), ops::full({}, 0.1));
  eval(std::vector<Tensor>{a, b});
  const Tensors p = plain({a, b}), q = again({a, b});
  for (std::size_t i = 0; i < p.size(); ++i) {
    EXPECT_EQ(difference(p[i].type(), p[i].to_bytes(), q[i].to_bytes()), "");
  }
}

TEST_F(Memory, TheSamePlanRunsTwiceWithoutTraces) {
  // The arena is kept between runs: nothing of the first run may show in the second.
  Compiled f = compile([](const Tensors& x) {
    return Tensors{ops::sum(ops::pad(ops::exp(x[0]), {3}, {5}, 0.0)), ops::cumsum(ops::neg(x[0]))};
  });
  const Tensor a = vec({1, 2, 3}), b = vec({0, 0, 0});
  const Bytes first = f({b})[0].to_bytes();
  const Tensors kept = f({a});
  const Bytes cumulated = kept[1].to_bytes();
  EXPECT_EQ(f({b})[0].to_bytes(), first);
  EXPECT_EQ(kept[1].to_bytes(), cumulated);  // results are not overwritten by the next run
}

TEST_F(Memory, ResultsOfOneGraphMayRepeatAndBeInputs) {
  const Tensor x = vec({1, 2});
  Compiled f = compile([](const Tensors& a) {
    const Value y = ops::neg(a[0]);
    return Tensors{y, y, a[0], ops::reshape(y, {2, 1}), ops::slice_axis(y, 0, 1, 2)};
  });
  const Tensors r = f({x});
  EXPECT_EQ(r[0].to_floats(), (Floats{-1, -2}));
  EXPECT_EQ(r[1].to_floats(), (Floats{-1, -2}));
  EXPECT_EQ(r[2].to_floats(), (Floats{1, 2}));
  EXPECT_EQ(r[3].to_floats(), (Floats{-1, -2}));
  EXPECT_EQ(r[4].to_floats(), (Floats{-2}));
}

}  // namespace
}  // namespace isotone
