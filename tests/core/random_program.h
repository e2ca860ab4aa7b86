// Random programs over the operations: the tests' supply of graphs that nobody thought of.
#pragma once

#include <random>

#include "tests/core/support.h"

namespace isotone {

/// Records random operations on a growing pool of values.
class Program {
 public:
  explicit Program(unsigned seed) : rng_(seed) {
    for (unsigned i = 0; i < 1 + rng_() % 3; ++i) {
      add_input({pick(std::vector<DType>{DType::f32, DType::f32, DType::bf16, DType::f16}), random_shape()});
    }
    const unsigned length = 5 + rng_() % 26;
    for (unsigned i = 0; i < length; ++i) {
      const Value x = any();
      try {
        keep(step(x));
      } catch (const Error&) {
        // Not every operation takes every shape; the next one is another.
      }
    }
    Values outputs;
    for (unsigned i = 0; i < 1 + rng_() % 3; ++i) {
      outputs.push_back(i == 0 ? pool_.back() : any());
    }
    graph = ir::flatten(outputs, inputs_).graph;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      contents.push_back(random_bytes(inputs_[i].type()));
      donated.push_back(rng_() % 2 == 0);
    }
  }

  ir::Graph graph;
  std::vector<Bytes> contents;
  std::vector<bool> donated;

 private:
  template <class T>
  const T& pick(const std::vector<T>& list) {
    return list[rng_() % list.size()];
  }
  std::int64_t upto(std::int64_t n) { return static_cast<std::int64_t>(rng_() % static_cast<std::uint64_t>(n)); }

  ir::Shape random_shape() {
    ir::Shape s(rng_() % 4);
    for (auto& d : s) {
      d = pick(std::vector<std::int64_t>{1, 2, 3, 4, 5, 8, 16, 17, 33});
    }
    return s;
  }

  Bytes random_bytes(const Type& t) {
    Bytes bytes(t.bytes());
    const ops::HostTensor host{&t, bytes.data()};
    std::normal_distribution<float> normal(0.0F, 1.5F);
    for (std::int64_t i = 0; i < t.elements(); ++i) {
      const unsigned r = rng_() % 200;
      host.set(i, r == 0 ? 0.0F : r == 1 ? -0.0F : r == 2 ? 1e-39F : r == 3 ? 3e4F : normal(rng_));
    }
    return bytes;
  }

  void add_input(const Type& t) {
    inputs_.push_back(ir::leaf(t, nullptr, true));
    pool_.push_back(inputs_.back());
  }

  Value any() {  // rather a late one, so that chains get long
    const std::size_t n = pool_.size();
    return rng_() % 2 == 0 ? pool_.back() : pool_[rng_() % n];
  }

  void keep(const Value& v) {
    if (v && v.type().elements() <= 4096 && v.rank() <= 5) {
      pool_.push_back(v);
    }
  }

  Value floats(const Value& v) { return is_float(v.dtype()) ? v : ops::cast(v, DType::f32); }

  /// Another value of x's dtype that broadcasts against it.
  Value partner(const Value& x) {
    const Value other = any();
    if (other.shape() == x.shape()) {
      return ops::cast(other, x.dtype());
    }
    switch (rng_() % 4) {
      case 0:
        return ops::full({}, static_cast<double>(upto(5)) - 2.0, x.dtype());
      case 1:
        return x.rank() > 0 ? ops::slice_axis(x, 0, 0, 1) : x;
      case 2:
        return x.rank() > 0 && x.dim(-1) > 0 ? ops::slice_axis(x, -1, x.dim(-1) - 1, x.dim(-1)) : x;
      default:
        return x;
    }
  }

  Value view(const Value& x) {
    const int rank = x.rank();
    switch (rng_() % 5) {
      case 0: {
        Ints order;
        for (int i = 0; i < rank; ++i) {
          order.push_back(i);
        }
        std::shuffle(order.begin(), order.end(), rng_);
        return ops::transpose(x, order);
      }
      case 1: {
        Ints begin, end, by;
        for (int i = 0; i < rank; ++i) {
          const std::int64_t n = x.dim(i), b = n > 0 ? upto(n) : 0;
          begin.push_back(rng_() % 2 == 0 ? 0 : b);
          end.push_back(n == 0 ? 0 : begin.back() + 1 + upto(n - begin.back()));
          by.push_back(1 + upto(3));
        }
        return ops::slice(x, begin, end, by);
      }
      case 2: {
        Shape s = x.shape();
        s.insert(s.begin(), 1 + upto(3));
        return ops::broadcast_to(x, s);
      }
      case 3:
        return ops::reshape(x, {-1});
      default: {  // split or join an axis
        Shape s = x.shape();
        if (rank >= 2 && rng_() % 2 == 0) {
          const auto i = static_cast<std::size_t>(upto(rank - 1));
          s[i] *= s[i + 1];
          s.erase(s.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        } else if (rank >= 1) {
          const auto i = static_cast<std::size_t>(upto(rank));
          const std::int64_t f = s[i] % 2 == 0 && s[i] > 0 ? 2 : 1;
          s[i] /= f;
          s.insert(s.begin() + static_cast<std::ptrdiff_t>(i), f);
        }
        return ops::reshape(x, s);
      }
    }
  }

  Value elementwise(const Value& v) {
    const Value x = floats(v);
    using Unary = Value (*)(const Value&);
    using Binary = Value (*)(const Value&, const Value&);
    static const std::vector<Unary> unary = {ops::neg,      ops::abs,       ops::exp,  ops::log,     ops::sin,
                                             ops::cos,      ops::tanh,      ops::erf,  ops::sigmoid, ops::silu,
                                             ops::gelu_erf, ops::gelu_tanh, ops::relu, ops::sqrt,    ops::rsqrt};
    static const std::vector<Binary> binary = {ops::add,     ops::sub,     ops::mul, ops::div,
                                               ops::maximum, ops::minimum, ops::pow, ops::swiglu};
    switch (rng_() % 6) {
      case 0:
      case 1:
        return pick(unary)(x);
      case 2:
        return pick(binary)(x, partner(x));
      case 3:
        return pick(binary)(partner(x), x);
      case 4: {
        const Value y = partner(x);
        const Value c = rng_() % 2 == 0 ? ops::less(x, y)
                                        : ops::logical_or(ops::equal(x, y), ops::logical_not(ops::less_equal(y, x)));
        return ops::where(c, x, y);
      }
      default:
        return rng_() % 2 == 0 ? ops::clamp(x, -0.75, 1.25) : ops::fan_in({x, ops::neg(x), x}, x.dtype());
    }
  }

  Value reduction(const Value& v) {
    const Value x = floats(v);
    Ints axes;
    for (int i = 0; i < x.rank(); ++i) {
      if (rng_() % 2 == 0) {
        axes.push_back(i);
      }
    }
    std::shuffle(axes.begin(), axes.end(), rng_);
    using Reduction = Value (*)(const Value&, Ints, bool);
    static const std::vector<Reduction> all = {ops::sum, ops::mean, ops::max, ops::min, ops::var, ops::logsumexp};
    return pick(all)(x, axes, rng_() % 2 == 0);
  }

  Value rows(const Value& v) {
    const Value x = floats(v);
    const std::int64_t n = x.dim(-1);
    switch (rng_() % 9) {
      case 0:
        return ops::softmax(x, -1 - upto(x.rank()));
      case 1:
        return ops::log_softmax(x);
      case 2:
        return ops::rms_norm(x, ops::cast(ops::iota({n}), x.dtype()), 1e-5);
      case 3:
        return ops::layer_norm(x, ops::full({n}, 0.5, x.dtype()), ops::full({n}, 0.25, x.dtype()), 1e-5);
      case 4:
        return ops::cumsum(x, upto(x.rank()), rng_() % 2 == 0);
      case 5:
        return ops::sort(x, upto(x.rank()), rng_() % 2 == 0)[rng_() % 2];
      case 6:
        return ops::topk(x, 1 + upto(n))[rng_() % 2];
      case 7:
        return rng_() % 2 == 0 ? ops::argmax(x, upto(x.rank())) : ops::argmin(x, upto(x.rank()));
      default: {
        const std::int64_t axis = upto(x.rank());
        return ops::gather(
            x,
            ops::argmax(ops::broadcast_to(ops::reshape(ops::transpose(x, identity(x.rank())), x.shape()), x.shape()),
                        axis),
            axis);
      }
    }
  }
  static Ints identity(int rank) {
    Ints order;
    for (int i = 0; i < rank; ++i) {
      order.push_back(i);
    }
    return order;
  }

  Value mover(const Value& x) {
    switch (rng_() % 6) {
      case 0:
        return ops::concat({x, x, ops::slice_axis(x, 0, 0, 1)}, 0);
      case 1: {
        Ints low, high, inner;
        for (int i = 0; i < x.rank(); ++i) {
          low.push_back(upto(3) - (x.dim(i) > 2 ? 1 : 0));
          high.push_back(upto(3));
          inner.push_back(upto(2));
        }
        return ops::pad(floats(x), low, high, 0.5, inner);
      }
      case 2: {
        const Value ids = ops::iota({x.dim(0)}, 0, rng_() % 2 == 0 ? DType::i32 : DType::i64);
        return ops::take(x, ids, 0);
      }
      case 3:
        return ops::cast(
            x, pick(std::vector<DType>{DType::f32, DType::bf16, DType::f16, DType::i32, DType::i8, DType::boolean}));
      case 4:
        return ops::stop_gradient(x);
      default: {
        const Value y = floats(x);
        const Value ids = ops::broadcast_to(ops::reshape(ops::iota({y.dim(0)}), expanded(y)), y.shape());
        return ops::scatter_add(y, ids, ops::neg(y), 0);
      }
    }
  }
  static Shape expanded(const Value& y) {
    Shape s(static_cast<std::size_t>(y.rank()), 1);
    s[0] = y.dim(0);
    return s;
  }

  Value product(const Value& v) {
    const Value x = floats(v);
    const Value flat = ops::reshape(x, {x.dim(0), -1});
    switch (rng_() % 4) {
      case 0:
        return ops::matmul(flat, ops::transpose(flat, {1, 0}));
      case 1:
        return ops::linear(flat, ops::reshape(flat, {-1, flat.dim(1)}), rng_() % 2 == 0 ? DType::f32 : x.dtype());
      case 2:
        return ops::einsum("ab,ac->bc", {flat, flat});
      default:
        return ops::einsum("ab,ab->a", {flat, ops::neg(flat)});
    }
  }

  Value step(const Value& x) {
    switch (rng_() % 12) {
      case 0:
      case 1:
      case 2:
        return view(x);
      case 3:
      case 4:
      case 5:
      case 6:
        return elementwise(x);
      case 7:
        return reduction(x);
      case 8:
        return rows(x);
      case 9:
      case 10:
        return mover(x);
      default:
        return product(x);
    }
  }

  std::mt19937 rng_;
  Values inputs_, pool_;
};

}  // namespace isotone
