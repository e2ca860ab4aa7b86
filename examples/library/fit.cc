// Isotone as a library: a small network learns sin(x) by gradient descent. Every run, on every processor and number of
// threads, prints the same digits.
#include <isotone/isotone.h>

#include <cmath>
#include <cstdio>

using namespace isotone;

/// {w1, b1, w2, b2, x, y} -> {mean squared error}: two linear layers with tanh between.
static Tensors loss(const Tensors& t) {
  const Tensor hidden = ops::tanh(Tensor(ops::linear(t[4], t[0])) + t[1]);
  const Tensor error = Tensor(ops::linear(hidden, t[2])) + t[3] - t[5];
  return {ops::mean(error * error, {0, 1})};
}

int main() try {
  use_device("cpu");
  std::vector<float> xs, ys;
  for (int i = 0; i < 64; ++i) {
    xs.push_back(-3.0F + 6.0F * static_cast<float>(i) / 63.0F);
    ys.push_back(std::sin(xs.back()));
  }
  const Tensor x = Tensor::from(xs, {64, 1}), y = Tensor::from(ys, {64, 1});
  // Random numbers are a function of the seed, the name and the step alone.
  const Tensor zero = Tensor::scalar(0, DType::i64);
  const Tensors start = {ops::random_normal(zero, {16, 1}, 7, "w1"), ops::random_normal(zero, {16}, 7, "b1"),
                         ops::random_normal(zero, {1, 16}, 7, "w2"), ops::full({1}, 0.0)};

  const auto gradient = value_and_grad(loss);
  Compiled step([&](const Tensors& p) {  // one step of gradient descent, traced once and compiled
    const ValueAndGrad g = gradient({p[0], p[1], p[2], p[3], x, y});
    Tensors next = {g.values[0]};
    for (std::size_t i = 0; i < p.size(); ++i) {
      next.push_back(p[i] - g.gradients[i] * Tensor::scalar(0.05));
    }
    return next;
  });

  Tensors p = start;
  float error = 0.0F;
  for (int i = 0; i <= 2000; ++i) {
    const Tensors next = step(p);
    error = next[0].item();
    p.assign(next.begin() + 1, next.end());
    if (i % 500 == 0) {
      std::printf("step %4d  mean squared error %.9g\n", i, static_cast<double>(error));
    }
  }
  return error < 0.01F ? 0 : 1;
} catch (const Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
